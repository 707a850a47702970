package layout

import (
	"fmt"
	"strconv"
	"strings"
)

// Line is a line of a rankfile, or of a hostfile that is followed in its order: a rank, its host and its
// CPUs.
type Line struct {
	Rank int
	Host string // as it was written; "": Relative
	// Relative is the host's place among those of the job ("+n2"), where Host is empty.
	Relative int
	CPUs     CPUs // nil: none are listed (only with a mapping by "seq")
	At       int  // the line's number in its file; 0: it is of a list
}

// maxLines bounds a rankfile.
const maxLines = 1 << 20

// ParseRankfile reads Open MPI's form of it (orte/mca/rmaps/rank_file): "rank N=host slot=list", in
// which blanks stand where they like and "#" or "//" begins a comment. Ranks may come in any order, each once.
func ParseRankfile(text string) ([]Line, error) {
	var lines []Line
	seen := map[int]int{}
	at := 0
	for raw := range strings.Lines(text) {
		at++
		line, _, _ := strings.Cut(raw, "#")
		line, _, _ = strings.Cut(line, "//")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		l, err := parseLine(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", at, err)
		}
		if first, twice := seen[l.Rank]; twice {
			return nil, fmt.Errorf("line %d: rank %d has its place on line %d already", at, l.Rank, first)
		}
		l.At = at
		if seen[l.Rank] = at; len(lines) == maxLines {
			return nil, fmt.Errorf("more than %d ranks", maxLines)
		}
		lines = append(lines, l)
	}
	if len(lines) == 0 {
		return nil, fmt.Errorf("it names no rank; a line is rank 0=HOST slot=0")
	}
	return lines, nil
}

func parseLine(line string) (l Line, err error) {
	const form = "a line is rank 0=HOST slot=0"
	rest, ok := cutWord(line, "rank")
	if !ok {
		return l, fmt.Errorf("%.60q does not begin with rank; %s", line, form)
	}
	number, rest, ok := strings.Cut(rest, "=")
	n, err := strconv.ParseUint(strings.TrimSpace(number), 10, 31)
	if !ok || err != nil || n >= most {
		return l, fmt.Errorf("%.60q names no rank; %s", line, form)
	}
	l.Rank = int(n)
	host, rest, _ := strings.Cut(strings.TrimSpace(rest), " ")
	host, after, joined := strings.Cut(host, "\t")
	if joined {
		rest = after + " " + rest
	}
	if err := l.setHost(host); err != nil {
		return l, err
	}
	list, ok := cutWord(strings.TrimSpace(rest), "slots")
	if !ok {
		list, ok = cutWord(strings.TrimSpace(rest), "slot")
	}
	list, is := strings.CutPrefix(strings.TrimSpace(list), "=")
	if !ok || !is {
		return l, fmt.Errorf("rank %d has no slot=; %s", l.Rank, form)
	}
	l.CPUs, err = ParseCPUs(strings.Join(strings.Fields(list), ""))
	if err != nil {
		return l, fmt.Errorf("rank %d: %w", l.Rank, err)
	}
	return l, nil
}

func (l *Line) setHost(host string) error {
	if i := strings.LastIndexByte(host, '@'); i >= 0 { // user@host
		host = host[i+1:]
	}
	if in, ok := strings.CutPrefix(host, "["); ok { // an IPv6 address
		host = strings.TrimSuffix(in, "]")
	}
	nth, relative := strings.CutPrefix(strings.ToLower(host), "+n")
	if !relative {
		if l.Host = host; host == "" {
			return fmt.Errorf("rank %d has no host; a line is rank 0=HOST slot=0", l.Rank)
		}
		return nil
	}
	n, err := strconv.ParseUint(nth, 10, 31)
	if err != nil {
		return fmt.Errorf("rank %d: host %.40q is none; +n0 is the first of the job's", l.Rank, host)
	}
	l.Relative = int(n)
	return nil
}

// cutWord is what follows a word at the start, in any case.
func cutWord(line, word string) (string, bool) {
	if len(line) < len(word) || !strings.EqualFold(line[:len(word)], word) {
		return line, false
	}
	return line[len(word):], true
}
