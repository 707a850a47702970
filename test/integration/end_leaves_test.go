package integration

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// A rank whose first process ends and leaves its work to a daemon, a process session of its own or the background ends
// when that has: with its result and 0, or as that failed.
func TestRanksThatLeave(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	for _, library := range []string{"MPICH", "Open MPI"} {
		exe := l.programOf(t, library, "leaves")
		for _, c := range []struct {
			name    string
			argv    []string
			code    int
			results int
			says    string // the run's end
		}{
			{"a daemon", []string{exe, "daemon"}, 0, 2, ""},
			{"setsid", []string{"setsid", exe, "stays"}, 0, 2, ""},
			{"the background", []string{"sh", "-c", exe + " stays &"}, 0, 2, ""},
			{"later in the background", []string{"sh", "-c", "(sleep 3; exec " + exe + " stays) &"}, 0, 2, ""},
			{"without the output", []string{"sh", "-c", exe + " stays >$FOLDER/$MPIUP_RANK 2>&1 &"}, 0, 0, ""},
			{"with a daemon beside", []string{"sh", "-c", "sleep 1000 >/dev/null 2>&1 & " + exe + " stays &"}, 0, 2, ""},
			{"late", []string{exe, "late"}, 0, 2, ""},
			{"a code of its own", []string{exe, "daemon", "3"}, 3, 2, "exited with code 3"},
			{"killed", []string{exe, "kill"}, 137, 0, "rank 1 on "},
			{"without MPI_Finalize", []string{exe, "exit", "0"}, 1, 0, "without MPI_Finalize"},
			{"without MPI_Finalize, and a code", []string{exe, "exit", "5"}, 5, 0, "exited with code 5"},
		} {
			for _, hosts := range []string{"", "w0:1,w1:1"} {
				t.Run(library+", "+c.name+", "+hosts, func(t *testing.T) {
					t.Parallel()
					args := append([]string{"-n", "2", "-x", "FOLDER=" + l.folder(t)}, c.argv...)
					var r result
					if hosts == "" {
						r = l.embedded(t, job{}, args...).Wait(t)
					} else {
						r = l.run(t, job{hosts: hosts, args: args})
					}
					r.Fails(t, c.code, c.says)
					if n := strings.Count(r.Stdout, "result of rank "); n != c.results && c.results+c.code > 0 {
						t.Errorf("%d results:\n%s\n%s", n, r.Stdout, r.Stderr)
					}
					for _, lie := range []string{"never spoke", "was alone", "without having called MPI_Init"} {
						if strings.Contains(r.Stderr, lie) {
							t.Errorf("it says %q:\n%s", lie, r.Stderr)
						}
					}
				})
			}
		}
	}
}

// What ends a run, or is passed on, reaches those that go on for their ranks, and leaves none of them.
func TestStopsOfRanksThatLeave(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	for _, library := range []string{"MPICH", "Open MPI"} {
		exe := l.programOf(t, library, "leaves")
		for _, c := range []struct {
			name   string
			args   []string
			signal syscall.Signal // to the launcher, once all are there; 0: none
			code   int
			wrote  []string
		}{
			{"Ctrl-C", nil, syscall.SIGINT, 130, []string{"rank 0 got INT", "rank 1 got INT", "rank 0 got TERM"}},
			{"a time limit", []string{"--timeout", "5s"}, 0, 110, []string{"rank 0 got TERM", "rank 1 got TERM"}},
			{"a signal", []string{"--timeout", "8s"}, syscall.SIGUSR1, 110, []string{"rank 0 got USR1", "rank 1 got USR1"}},
		} {
			t.Run(library+", "+c.name, func(t *testing.T) {
				t.Parallel()
				mark := "mark-" + strings.ReplaceAll(t.Name(), "/", "-")
				args := append([]string{"-n", "2", "--grace", "1"}, c.args...)
				r := l.start(t, job{hosts: "w0:1,w1:1", args: append(args, exe, "catch", "0", mark)})
				r.Says(t, "rank 0 is there\n", "rank 1 is there\n")
				if c.signal != 0 {
					r.Signal(t, c.signal)
				}
				got := r.Wait(t).Fails(t, c.code)
				for _, want := range c.wrote {
					if !strings.Contains(got.Stdout, want+"\n") {
						t.Errorf("it wrote\n%s\nwithout %q", got.Stdout, want)
					}
				}
				for _, host := range []string{"w0", "w1"} {
					for late := time.Now().Add(20 * time.Second); len(l.matching(t, host, mark)) > 0; {
						if time.Now().After(late) {
							t.Fatalf("processes %v are left on %s", l.matching(t, host, mark), host)
						}
					}
				}
			})
		}
	}
}
