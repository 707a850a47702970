package peers

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/streams"
)

// screen is the terminal of mpiup ps --watch. What each rank used at the looks before stands beside it, the newest at
// the right:
//
//	RANK  HOST  ...  CPU%  ▁▁▁▁▇▇▇▇  RSS       one scale for all ranks, of 20 % at least
//
// A rank whose CPU differs from most others' of its job stands out: bold where the terminal can, and with "!"
// everywhere.
type screen struct {
	size  func() (rows, columns int)
	marks []string // of CPU, from none to all
	bold  bool
	past  map[rankKey][]float64 // the newest last; of ranks that the last look saw
}

// rankKey tells a rank from those of other jobs.
type rankKey struct {
	runKey
	number, rank uint32
	host         string
}

func (r psRow) key() rankKey { return rankKey{runKey{r.Launcher, r.Job}, r.Number, r.Rank, r.Host} }

// Signs of CPU for a terminal of Unicode, and for any other.
var (
	blocks = strings.Split("▁▂▃▄▅▆▇█", "")
	ascii  = strings.Split("_.-=+*%#", "")
)

// maxPast is how many looks are remembered, and leastPast how many tell a rank from others.
const (
	maxPast   = 30
	leastPast = 4
)

// screenOf is the terminal that standard output is; nil: it is none, or there is one look only.
func screenOf(cfg *PsConfig) *screen {
	file, _ := cfg.Stdout.(*os.File)
	if cfg.Watch == 0 || cfg.JSON || !streams.IsTerminal(cfg.Stdout) {
		return nil
	}
	s := &screen{marks: ascii, past: map[rankKey][]float64{}}
	s.bold = cfg.Env("NO_COLOR") == "" && cfg.Env("TERM") != "" && cfg.Env("TERM") != "dumb" // no-color.org
	if unicodeLocale(cfg.Env) {
		s.marks = blocks
	}
	s.size = func() (int, int) {
		rows, columns, err := streams.TerminalSize(file)
		if err != nil || rows == 0 || columns == 0 {
			return 24, 80
		}
		return int(rows), int(columns)
	}
	return s
}

// unicodeLocale says that the terminal is of UTF-8 by the environment (locale(7)).
func unicodeLocale(env func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToLower(env(name)); v != "" {
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}

// saw takes what a look saw. What ranks that are gone have used is forgotten.
func (s *screen) saw(rows []psRow) {
	now := make(map[rankKey][]float64, len(rows))
	for _, r := range rows {
		past := append(s.past[r.key()], r.CPU)
		now[r.key()] = past[max(0, len(past)-maxPast):]
	}
	s.past = now
}

// spark is a rank's last n looks; a rank that was not there yet has blanks.
func (s *screen) spark(r psRow, most float64, n int) string {
	past := s.past[r.key()]
	past = past[max(0, len(past)-n):]
	var b strings.Builder
	b.WriteString(strings.Repeat(" ", n-len(past)))
	for _, v := range past {
		b.WriteString(s.marks[min(int(v/most*float64(len(s.marks))), len(s.marks)-1)])
	}
	return b.String()
}

// most is the scale of all sparklines.
func (s *screen) most() float64 {
	most := 20.0
	for _, past := range s.past {
		most = max(most, slices.Max(past))
	}
	return most
}

// odd are the ranks of one job whose CPU of late is far from that of most; none where too little was seen.
func (s *screen) odd(rows []psRow) map[rankKey]bool {
	const far = 4
	means := make([]float64, len(rows))
	for i, r := range rows {
		past := s.past[r.key()]
		if len(past) < leastPast {
			return nil
		}
		for _, v := range past[len(past)-leastPast:] {
			means[i] += v / leastPast
		}
	}
	middle := slices.Sorted(slices.Values(means))[len(means)/2]
	odd := map[rankKey]bool{}
	for i, r := range rows {
		if low, high := min(means[i], middle), max(means[i], middle); high >= 20 && far*low < high {
			odd[r.key()] = true
		}
	}
	if 2*len(odd) > len(rows) || len(rows) < 3 {
		return nil
	}
	return odd
}

// table writes the lines of one job, which end in oddSign where a rank stands out. Sparklines take the room that the
// screen has, and eight characters at least: what the others show is cut before.
func (s *screen) table(b *strings.Builder, rows []psRow, gpus bool, columns int) {
	const least = 8
	var bare strings.Builder
	table(&bare, rows, gpus, nil)
	wide := 0
	for l := range strings.Lines(bare.String()) {
		wide = max(wide, utf8.RuneCountInString(l))
	}
	odd, most, n := s.odd(rows), s.most(), min(max(columns-wide-3, least), maxPast)
	var text strings.Builder
	table(&text, rows, gpus, func(r psRow) string {
		if odd[r.key()] {
			return s.spark(r, most, n) + "!"
		}
		return s.spark(r, most, n)
	})
	i := -1 // of the row; the head is none
	for l := range strings.Lines(text.String()) {
		l = strings.TrimSuffix(l, "\n")
		if i >= 0 && odd[rows[i].key()] {
			l += oddSign
		}
		b.WriteString(l + "\n")
		i++
	}
}

// show prints a look.
func (s *screen) show(w io.Writer, v *psView) error {
	s.saw(v.Ranks)
	_, wide := s.size()
	return s.put(w, v.text(s, wide))
}

// put prints a text on a cleared screen, cut to what it has room for.
func (s *screen) put(w io.Writer, text string) error {
	high, wide := s.size()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if left := len(lines) - (high - 1); left > 0 && high > 2 {
		lines = append(lines[:high-2], fmt.Sprintf("and %s more; mpiup ps shows all", visible.Count(left+1, "line")))
	}
	const bold, plain = "\x1b[1m", "\x1b[0m"
	for i, l := range lines {
		l, odd := strings.CutSuffix(l, oddSign)
		l = visible.Line(l)
		if utf8.RuneCountInString(l) > wide {
			l = string([]rune(l)[:max(wide-1, 0)]) + ">"
		}
		if odd && s.bold {
			l = bold + l + plain
		}
		lines[i] = l
	}
	_, err := io.WriteString(w, homeAndClear+strings.Join(lines, "\n")+"\n")
	return err
}

// oddSign ends the line of a rank that stands out. Nothing that an agent tells has it: names are made visible before.
const oddSign = "\x00"
