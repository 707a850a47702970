package logs

import (
	"strings"
	"testing"
)

// Whoever's end a launcher or a library tells first, what rank 3 said before and rank 5 said too is said of one of them.
func TestWhatOthersSaidToo(t *testing.T) {
	ends := []string{
		"MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD\nwith errorcode 1.",
		"Abort(1) on node 3 (rank 3 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 1) - process 3",
		"srun: error: nid0001: task 3: Exited with exit code 1",
	}
	for _, words := range []string{
		"ERROR on proc <>: Lost atoms: original 4000 current 3999 (src/thermo.cpp:494)",
		"Process <> - unable to allocate 20 bytes",
		"P<>: wrong grid size here",
		"myid = <> wrong number of cells",
		"NaN detected on PE <>",
		"<>: NaN",
		"[1,<>]<stderr>:bad grid dims",
		"(<>) failed to read mesh",
		"           <> bad dims of the grid",
		"PE 000<>: bad boundary conditions",
		"Error (rank <>): could not open /a/b.<>.dat",
		"FATAL from PE     <>: MPP_DEFINE_DOMAINS: bad layout",
		"forrtl: severe (59): list-directed I/O syntax error, unit 10, file /a/b/rank<>.in",
	} {
		three, five := strings.ReplaceAll(words, "<>", "3"), strings.ReplaceAll(words, "<>", "5")
		for _, end := range ends {
			if got := read(three + "\n" + five + "\n" + end); !strings.HasSuffix(got, " rank one of 3,5") {
				t.Errorf("%s of %q and %q", got, five, end)
			}
			if got := read(three + "\n" + end); !strings.Contains(got, " rank 3 ") {
				t.Errorf("%s of %q and %q", got, three, end)
			}
		}
	}
	greeting := "Hello from process 5 of 8\nHello from process 3 of 8\n"
	for _, end := range ends {
		if got := read(greeting + end); !strings.Contains(got, " rank 3 ") {
			t.Errorf("%s after a greeting and %q", got, end)
		}
	}
}

// read is what is said of a log.
func read(log string) string {
	var r Reader
	for line := range strings.SplitSeq(log, "\n") {
		r.Line(line)
	}
	return said(&r)
}

// What strikes all ranks alike is a rank's where another one is in another state; who only tells of a connection or a time is not to blame; and of
// two that failed, each in its own words, either may be the first.
func TestRankIsShown(t *testing.T) {
	const library = "ImportError: libfoo.so.1: cannot open shared object file: No such file or directory"
	for _, tc := range []struct{ log, want string }{
		{"[rank1]: ready\n[rank3]: " + library, "kind missing-library rank 3 certain"},
		{"[rank3]: " + library, "kind missing-library rank unknown"},
		{"[rank3]: requests.exceptions.HTTPError: 503 timed out", "kind python-exception rank unknown"},
		{"[rank2]: ValueError: a\n[rank5]: KeyError: b", "kind python-exception rank one of 2,5"},
		{"[rank2]: ValueError: a\n[rank5]: ready", "kind python-exception rank 2 certain"},
		{"ERROR on proc 5: Lost atoms: original 4000 current 3999\nmpirun noticed that process rank 3 with PID 7 on node w1 exited on signal 6 (Aborted).",
			"kind crash rank one of 3,5"},
	} {
		if got := read(tc.log); got != tc.want {
			t.Errorf("%s, want %s of %q", got, tc.want, tc.log)
		}
	}
}

// One line of whatever launcher tells of a rank, of its host and of how it ended.
func TestOneLineOfAnEnd(t *testing.T) {
	for _, tc := range []struct{ line, said, host string }{
		{"rank 7 failed on node w1 with code 1", "kind exit-code rank 7 certain", "w1"},
		{"rank 7 on w1 failed with code 1", "kind exit-code rank 7 certain", "w1"},
		{"rank 7 failed with error code 13", "kind exit-code rank 7 certain", ""},
		{"rank 7 failed on node w1 with signal 11", "kind segfault rank 7 certain", "w1"},
		{"Process 7 finished with code 1", "kind exit-code rank unknown", ""},
		{"Process 7 finished with code 0", "none", ""},
		{"Worker 3 finished epoch 4 with code 7 batches", "none", ""},
	} {
		var r Reader
		r.Line(tc.line)
		if v, _ := r.Verdict(); said(&r) != tc.said || v.Host != tc.host {
			t.Errorf("%s on %q of %q", said(&r), v.Host, tc.line)
		}
	}
}
