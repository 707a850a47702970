package launcher

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/iof"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// recorded is what a program wrote on standard error as it failed, and what a verdict has to say of it.
//
//	# torch 2.15.0 on Python 3.11.2, 2026-11-28: what was done
//	# kind python-exception code 1
//	# cause WORDS    the first sentence has these
//	# says WORDS     one of the lines has these
//	# never WORDS    no line has these
type recorded struct {
	source             string
	kind               verdict.Kind
	code               int
	cause, says, never []string
	wrote              string
}

func readRecorded(t *testing.T, file string) (r recorded) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		words, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "# ")
		if !ok || r.wrote != "" {
			r.wrote += line
			continue
		}
		what, rest, _ := strings.Cut(words, " ")
		switch what {
		case "kind":
			if _, err := fmt.Sscanf(rest, "%s code %d", &r.kind, &r.code); err != nil {
				t.Fatalf("%s: %q: %v", file, line, err)
			}
		case "cause":
			r.cause = append(r.cause, rest)
		case "says":
			r.says = append(r.says, rest)
		case "never":
			r.never = append(r.never, rest)
		default:
			r.source = words
		}
	}
	return r
}

// judge is the verdict on rank 2 of four, which wrote this in pieces and exited.
func (r recorded) judge(t *testing.T, piece int) (verdict.Verdict, []string) {
	sink, err := iof.New(iof.Config{Ranks: 4})
	if err != nil {
		t.Fatal(err)
	}
	const rank = 2
	for rest := r.wrote; rest != ""; {
		n := min(len(rest), piece)
		sink.Write(rank, job.Stderr, []byte(rest[:n]), false, time.Time{})
		rest = rest[n:]
	}
	sink.End(rank)
	tail, _ := sink.Tail(rank)

	about := func(id int) verdict.Fault {
		return verdict.Fault{Event: verdict.Ended, ID: id, Host: fmt.Sprint("w", id/2), Node: id / 2, Process: job.Process{Rank: id}, Piped: true}
	}
	var c verdict.Case
	f := about(rank)
	f.Exit.Code = r.code
	c.Add(f)
	c.Hear(4, func(id int) verdict.Said { return saidBy(sink.Words(id), map[bool][]string{true: tail}[id == rank]) }, time.Time{}, about)

	words := sink.Words(rank)
	last := verdict.Wrote{Last: tail[len(tail)-1]}
	v, _ := c.Verdict(verdict.Circumstances{Stderr: words.First, Wrote: last})
	return v, v.End(verdict.LastLines{Unseen: true})
}

// What real programs wrote as they failed, each on the day and with the versions that its file names, is told by its root and by what it led to.
func TestChains(t *testing.T) {
	files, err := filepath.Glob("testdata/chains/*.txt")
	if err != nil || len(files) < 45 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, file := range files {
		r := readRecorded(t, file)
		if r.source == "" || len(r.cause) == 0 {
			t.Errorf("%s says not whose words it has, or not what is right", file)
		}
		for _, piece := range []int{1 << 20, 1000, 7} {
			v, lines := r.judge(t, piece)
			all := strings.Join(lines, "\n")
			if v.Kind != r.kind {
				t.Errorf("%s by %d: %s, and not %s\n%s", file, piece, v.Kind, r.kind, all)
			}
			for _, words := range r.cause {
				if !strings.Contains(lines[0], words) {
					t.Errorf("%s by %d: the first sentence lacks %q\n%s", file, piece, words, all)
				}
			}
			for _, words := range r.says {
				if !strings.Contains(all, words) {
					t.Errorf("%s by %d: no line has %q\n%s", file, piece, words, all)
				}
			}
			for _, words := range r.never {
				if strings.Contains(all, words) {
					t.Errorf("%s by %d: it says %q\n%s", file, piece, words, all)
				}
			}
			if t.Failed() {
				break
			}
		}
	}
}
