package kvs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/test/golden"
)

// A script is lines of "command -> what came of it"; the right side is golden. Commands:
//
//	job SIZE LOCAL...            a new table for a host with these ranks
//	and BASE SIZE LOCAL...       another job, whose ids begin at BASE
//	over BASE                    nothing is left of a job
//	enter ID [SET[#TAG] [direct]]  into the fence of SET ("0,2"; "all"), without collecting if direct
//	done SET[#TAG]               Upstream has answered
//	gone ID WHY...               back ID
//	open                         the fences in flight
func TestFenceScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/fence-*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			golden.Is(t, file, play(string(want)))
		})
	}
}

// The names of sets stay for good, so there cannot be any number of them.
func TestNamesOfSetsAreBounded(t *testing.T) {
	for _, tt := range []struct {
		tag  string
		fits int
	}{{"", setsMax}, {strings.Repeat("t", 240), namesMax / 256}} {
		tab := newFences(3)
		tab.add(0, 2, []int{0})
		var limit *LimitError
		for i := range setsMax + 1 {
			f, _, err := tab.enter(0, idset.Set{}, fmt.Sprintf("%s%07d", tt.tag, i), true)
			if errors.As(err, &limit) {
				if i < tt.fits {
					t.Errorf("ended at %d: %v", i, err)
				}
				break
			}
			tab.end(f)
		}
		if limit == nil {
			t.Error("any number was taken")
		}
	}
	tab := newFences(3)
	tab.add(0, 2, []int{0})
	var limit *LimitError
	if _, _, err := tab.enter(0, idset.Set{}, strings.Repeat("t", tagMax+1), true); !errors.As(err, &limit) {
		t.Errorf("a long tag: %v", err)
	}
}

func play(script string) string {
	var out strings.Builder
	var tab fences
	for line := range strings.Lines(script) {
		cmd, _, _ := strings.Cut(strings.TrimRight(line, "\n"), "->")
		cmd = strings.TrimSpace(cmd)
		if cmd == "" || cmd[0] == '#' {
			out.WriteString(line)
			continue
		}
		fmt.Fprintf(&out, "%s -> %s\n", cmd, step(&tab, strings.Fields(cmd)))
	}
	return out.String()
}

func step(tab *fences, f []string) string {
	switch f[0] {
	case "job":
		*tab = newFences(3)
		tab.add(0, num(f[1]), nums(strings.Join(f[2:], ",")))
		return "ok"
	case "and":
		if tab.add(num(f[1]), num(f[2]), nums(strings.Join(f[3:], ","))) == nil {
			return "ids of another job"
		}
		return "ok"
	case "over":
		return fails(tab.remove(tab.parts.Of(num(f[1]))), func(fence *fence) string { tab.end(fence); return fence.set })
	case "enter":
		var set idset.Set
		var tag string
		if len(f) > 2 {
			var ranks string
			if ranks, tag, _ = strings.Cut(f[2], "#"); ranks != "all" {
				var err error
				if set, err = idset.Parse(ranks); err != nil {
					return err.Error()
				}
			}
		}
		fence, full, err := tab.enter(num(f[1]), set, tag, len(f) < 4)
		switch {
		case err != nil:
			return "error: " + err.Error()
		case full && fence.allHere:
			tab.end(fence)
			return "done"
		case full:
			return fmt.Sprintf("exchange %s epoch %d", fence.set, fence.epoch)
		}
		return fmt.Sprintf("wait %d of %d", len(fence.entered), len(fence.local))
	case "done":
		fence := tab.open[f[1]]
		if fence == nil {
			return "no such fence"
		}
		tab.end(fence)
		return "ok"
	case "gone":
		p := tab.parts.Of(num(f[1]))
		if p == nil {
			p = tab.parts[0]
		}
		return fails(tab.leave(p, num(f[1]), strings.Join(f[2:], " ")), func(fence *fence) string {
			defer tab.end(fence)
			return tab.goneError(fence).Error()
		})
	case "back":
		delete(tab.parts.Of(num(f[1])).gone, num(f[1]))
		return "ok"
	case "open":
		return strconv.Itoa(len(tab.open))
	}
	return "unknown command"
}

// fails ends fences.
func fails(failed []*fence, end func(*fence) string) string {
	if len(failed) == 0 {
		return "nobody waits"
	}
	var texts []string
	for _, f := range failed {
		texts = append(texts, end(f))
	}
	return "fails: " + strings.Join(texts, "; ")
}

func nums(s string) (out []int) {
	for _, f := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' }) {
		out = append(out, num(f))
	}
	return out
}

func num(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}
