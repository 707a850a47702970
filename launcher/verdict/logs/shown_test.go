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
