package hang

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/witness"
	"github.com/mpiup/mpiup/test/golden"
)

// TestScripts plays testdata/stalls.txt. A line is
//
//	# text                                        what follows is shown, and begins a new run
//	TIME OWN works=IDS busy=IDS idle=IDS where=IDS   a host, by its ranks' ids, tells of them; saw=BITS: what it looked at
//	look TIME AFTER RUNNING silent=IDS late=IDS      what is made of it; its answer follows it in the golden file
func TestScripts(t *testing.T) {
	file, err := os.Open("testdata/stalls.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var out strings.Builder
	var w Watch
	for lines := bufio.NewScanner(file); lines.Scan(); {
		line := lines.Text()
		f := strings.Fields(line)
		if len(f) > 0 && !strings.HasPrefix(line, "  ") {
			fmt.Fprintln(&out, line)
		}
		switch {
		case len(f) == 0:
			fmt.Fprintln(&out)
		case f[0] == "#":
			w = Watch{}
		case strings.HasPrefix(line, "  "): // an answer
		case f[0] == "look":
			p := Picture{}
			for name, ids := range words(t, f[4:]) {
				of := Barrier{Name: name, Of: set(t, f[3])}
				of.Entered = of.Of.Sub(ids)
				if p.open = append(p.open, of); name == "silent" {
					p.silent = ids
				}
			}
			s, stalled := w.Look(at(t, f[1]), at(t, f[2]), set(t, f[3]))
			if !stalled {
				fmt.Fprintln(&out, "  no stall")
				continue
			}
			if quiet := w.Quiet(at(t, f[1]), set(t, f[3])); quiet != s.For {
				t.Errorf("%s: quiet for %v, and stalled for %v", line, quiet, s.For)
			}
			b := Facts{Running: set(t, f[3]), Places: onHosts(set(t, f[3]), 2), Barriers: &p, Watch: &w, Now: at(t, f[1]), Quiet: at(t, f[2])}.Blame()
			n := Names{Rank: func(id int) string { return fmt.Sprintf("rank %d on w%d (pid %d)", id, id/2, 100+id) },
				Ranks: func(ids idset.Set) string { return "ranks " + ids.String() }}
			for _, l := range append([]string{s.Sentence(n)}, b.Lines(n)...) {
				fmt.Fprintln(&out, "  "+l)
			}
			if why := s.Doubt(); why != "" {
				fmt.Fprintln(&out, "  not ended: "+why)
			}
		default:
			r := job.Activity{Looked: job.AtOutput | job.AtIO | job.AtSockets | job.AtPMI}
			for name, ids := range words(t, f[2:]) {
				switch name {
				case "works":
					r.Works = ids
				case "busy":
					r.Busy = ids
				case "idle":
					r.Idle = ids
				case "saw":
					r.Looked = 0
					for bit := range ids.All() {
						r.Looked |= 1 << bit
					}
				default:
					r.Places = append(r.Places, job.Place{Where: name, IDs: ids})
				}
			}
			w.Hear(at(t, f[0]), set(t, f[1]), r)
		}
	}
	golden.Is(t, "testdata/stalls.txt", out.String())
}

// onHosts are processes of which so many in a row are on one host: w0, w1 and so on.
func onHosts(ids idset.Set, each int) witness.Places {
	return witness.Places{All: ids, Host: func(id int) string { return fmt.Sprint("w", id/each) }}
}

func words(t *testing.T, list []string) map[string]idset.Set {
	out := map[string]idset.Set{}
	for _, w := range list {
		name, ids, _ := strings.Cut(w, "=")
		out[name] = set(t, ids)
	}
	return out
}

func at(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestInterval(t *testing.T) {
	for after, want := range map[time.Duration]time.Duration{5 * time.Minute: 10 * time.Second, 45 * time.Second: 7500 * time.Millisecond,
		time.Second: time.Second, 24 * time.Hour: 10 * time.Second} {
		if got := Interval(after); got != want {
			t.Errorf("%v: %v", after, got)
		}
	}
}

// A notice advises --on-stall abort only where that would end the run.
func TestNoticeAdvisesWhatEnds(t *testing.T) {
	seen := job.AtOutput | job.AtIO | job.AtSockets
	for _, tt := range []struct {
		name string
		s    Stall
		want string
	}{
		{"all idle", Stall{Idle: idset.Of(0, 1), Looked: seen}, AbortEnds},
		{"one may compute", Stall{Idle: idset.Of(0), Busy: idset.Of(1), Looked: seen}, AbortEnds + ", unless stacks show that a rank computes"},
		{"all sleep", Stall{Idle: idset.Of(0, 1), Asleep: true, Looked: seen}, ""},
		{"nobody sees sockets", Stall{Idle: idset.Of(0, 1), Looked: job.AtOutput | job.AtIO}, ""},
	} {
		if got := tt.s.Ends(); got != tt.want {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
}
