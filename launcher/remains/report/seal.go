package report

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/bounded"
)

// word begins each line of a sealed report, behind whatever a collector puts there.
const word = "mpiup-report "

const (
	lineBytes = 4000 // of base64 in a line: runtimes cut lines at 16 KiB
	maxParts  = MaxSealed/lineBytes + 1
	maxJSON   = 64 << 20 // bytes of what a sealed report unpacks to
	maxOpen   = 64       // reports that one log may hold parts of at a time
	longest   = 1 << 20  // bytes of a log's line; a longer one is no part of a report
)

// Seal is the report as lines for a log, without '\n'. What has no room is left out, the least telling first, and named
// in LeftOut.
func Seal(r *Report) ([]string, error) {
	for _, without := range []struct {
		what string
		do   func(*Report)
	}{
		{"", func(*Report) {}},
		{"lines of ranks that ended well", func(r *Report) {
			eachRank(r, func(p *Rank) {
				if p.End == "" || p.End == "exit code 0" {
					p.Last = nil
				}
			})
		}},
		{"the middle of the events", func(r *Report) { thin(r, 400) }},
		{"lines of ranks, but for the last three", func(r *Report) {
			eachRank(r, func(p *Rank) { p.Last = p.Last[max(0, len(p.Last)-3):] })
		}},
		{"all lines of ranks", func(r *Report) { eachRank(r, func(p *Rank) { p.Last = nil }) }},
		{"environments", func(r *Report) {
			r.Programs = append([]Program{}, r.Programs...)
			for i := range r.Programs {
				r.Programs[i].Env = nil
			}
		}},
		{"ranks", func(r *Report) { r.Ranks = nil }},
		{"all events but forty", func(r *Report) { thin(r, 40) }},
	} {
		if without.what != "" {
			small := *r
			small.LeftOut = append(append([]string{}, r.LeftOut...), without.what)
			without.do(&small)
			r = &small
		}
		packed, err := pack(r)
		if err != nil {
			return nil, err
		}
		if base64.StdEncoding.EncodedLen(len(packed)) <= MaxSealed {
			return parts(packed), nil
		}
	}
	return nil, fmt.Errorf("the report of job %s takes more than %d bytes, packed", r.Job, MaxSealed)
}

func eachRank(r *Report, f func(*Rank)) {
	r.Ranks = append([]Rank{}, r.Ranks...)
	for i := range r.Ranks {
		f(&r.Ranks[i])
	}
}

// thin leaves the first and the last events, n together.
func thin(r *Report, n int) {
	if len(r.Events) > n {
		r.Dropped += len(r.Events) - n
		r.Events = append(append([]Event{}, r.Events[:n/2]...), r.Events[len(r.Events)-n/2:]...)
	}
}

func pack(r *Report) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	err := json.NewEncoder(z).Encode(r)
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("packing the report: %w", err)
	}
	return b.Bytes(), nil
}

func parts(packed []byte) (lines []string) {
	text := base64.StdEncoding.EncodeToString(packed)
	count := (len(text) + lineBytes - 1) / lineBytes
	for i := range count {
		lines = append(lines, fmt.Sprintf("%s%s %d/%d %s", word, sum(packed), i+1, count, text[i*lineBytes:min(len(text), (i+1)*lineBytes)]))
	}
	return lines
}

func sum(packed []byte) string {
	s := sha256.Sum256(packed)
	return hex.EncodeToString(s[:4])
}

// ErrNone is what Unseal returns for a log that holds no report.
var ErrNone = errors.New("it holds no report: mpiup run --seal writes one as the last lines of the launcher's log")

// Unseal finds the last whole report in a log. The log may be hostile: what it takes is bounded.
func Unseal(log io.Reader) (*Report, error) {
	lines := bufio.NewReaderSize(log, 64<<10)
	open := map[string][]string{} // parts by report
	var found *Report
	torn := error(nil)
	for {
		line, err := readLine(lines)
		if line != "" {
			id, at, count, text, ok := part(line)
			switch {
			case !ok:
			case open[id] == nil && len(open) == maxOpen, open[id] != nil && len(open[id]) != count:
				torn = fmt.Errorf("parts of report %s do not fit together", id)
			default:
				if open[id] == nil {
					open[id] = make([]string, count)
				}
				open[id][at-1] = text
				if at == count {
					r, err := join(id, open[id])
					delete(open, id)
					if err != nil {
						torn = err
						continue
					}
					found, torn = r, nil
				}
			}
		}
		switch {
		case err == nil:
		case err != io.EOF:
			return nil, err
		case found != nil:
			return found, nil
		case torn != nil:
			return nil, torn
		case len(open) > 0:
			return nil, errors.New("the report is not whole: the log ends within it")
		default:
			return nil, ErrNone
		}
	}
}

// readLine is the next line; one that is too long to be a part comes as none.
func readLine(r *bufio.Reader) (string, error) {
	var line []byte
	long := false
	for {
		piece, err := r.ReadSlice('\n')
		if long = long || len(line)+len(piece) > longest; !long {
			line = append(line, piece...)
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if long {
			line = nil
		}
		return strings.TrimRight(string(line), "\r\n"), err
	}
}

// part takes a line apart: "... mpiup-report 9f3c01ab 2/5 TEXT".
func part(line string) (id string, at, count int, text string, ok bool) {
	i := strings.LastIndex(line, word)
	if i < 0 {
		return "", 0, 0, "", false
	}
	f := strings.Fields(line[i+len(word):])
	if len(f) < 3 || len(f[0]) != 8 {
		return "", 0, 0, "", false
	}
	first, second, _ := strings.Cut(f[1], "/")
	at, err1 := strconv.Atoi(first)
	count, err2 := strconv.Atoi(second)
	end := strings.IndexFunc(f[2], func(r rune) bool { return !strings.ContainsRune(base64Runes, r) })
	if end < 0 {
		end = len(f[2])
	}
	return f[0], at, count, f[2][:end], err1 == nil && err2 == nil && at >= 1 && at <= count && count <= maxParts
}

const base64Runes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="

func join(id string, texts []string) (*Report, error) {
	for i, t := range texts {
		if t == "" {
			return nil, fmt.Errorf("report %s is not whole: its line %d of %d is missing", id, i+1, len(texts))
		}
	}
	packed, err := base64.StdEncoding.DecodeString(strings.Join(texts, ""))
	if err != nil || sum(packed) != id {
		return nil, fmt.Errorf("report %s is damaged: its lines were cut or changed on the way", id)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("report %s: %w", id, err)
	}
	text, err := bounded.Read(z, maxJSON)
	if err != nil {
		return nil, fmt.Errorf("report %s: %w", id, err)
	}
	return parse(text)
}

// FileName is that of a report in its folder.
const FileName = "report.json"

// Read finds a report in a log, or reads its JSON. What it takes is bounded.
func Read(r *bufio.Reader) (*Report, error) {
	if first, _ := r.Peek(2 * len(jsonStart)); !strings.HasPrefix(strings.Join(strings.Fields(string(first)), ""), jsonStart) {
		return Unseal(r)
	}
	text, err := bounded.Read(r, maxJSON)
	if err != nil {
		return nil, err
	}
	return parse(text)
}

// jsonStart is what a report's JSON begins with.
const jsonStart = "{\"version\":"

func parse(text []byte) (*Report, error) {
	r := new(Report)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("it is no report: %w", err)
	}
	if r.Version != Version {
		return nil, fmt.Errorf("it is a report of form %d; this mpiup reads form %d", r.Version, Version)
	}
	return r, nil
}
