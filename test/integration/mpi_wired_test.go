package integration

import (
	"path/filepath"
	"strings"
	"testing"
)

// debian are Debian's two MPI libraries: what runs with each here, test/matrix runs with all the others.
var debian = []struct {
	name  string
	build func(*lab, *testing.T, string) string
	flags []string
}{
	{"MPICH", (*lab).program, nil},
	{"Open MPI", (*lab).openMPI, append([]string{"-x", "OMPI_MCA_osc=sm,pt2pt"}, ompiFlags...)},
}

// What MPI libraries do with each other once they are wired up: shared memory, large messages, windows, files.
func TestWiredPrograms(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	for _, c := range []struct{ program, want string }{
		{"shared", "shared ok 2"},
		{"bcast", "bcast ok"},
		{"onesided", "onesided ok"},
		{"file", "file ok"},
	} {
		for _, lib := range debian {
			t.Run(c.program+" with "+lib.name, func(t *testing.T) {
				t.Parallel()
				args := append(append([]string{"-n", "4"}, lib.flags...), lib.build(l, t, c.program), filepath.Join(l.folder(t), "out"))
				if c.program != "file" {
					args = args[:len(args)-1]
				}
				if r := l.run(t, job{hosts: "w0:2,w1:2", args: args}).OK(t); !strings.Contains(r.Stdout, c.want) {
					t.Errorf("printed %q, not %q", r.Stdout, c.want)
				}
			})
		}
	}
}

// A rank may end in any phase of MPI: the run ends with its code, and says which rank it was.
func TestRankDies(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	for _, c := range []struct {
		name, program string
		args          []string
		code          int
		cause         string
	}{
		{"before MPI_Init", "exitcode", []string{"3", "1", "before"}, 3, "rank 1 on w0 exited with code 3"},
		{"before its first fence", "death", []string{"wired"}, 5, "rank 1 on w0 exited with code 5"},
		{"inside a fence", "death", []string{"fenced"}, 142, "rank 1 on w0 was killed by signal 14"},
		{"in a barrier of the others", "exitcode", []string{"9", "1", "signal"}, 137, "rank 1 on w0 was killed by signal 9"},
		{"after MPI_Finalize", "death", []string{"ended"}, 5, "rank 1 on w0 exited with code 5"},
	} {
		for _, lib := range debian {
			t.Run(c.name+" with "+lib.name, func(t *testing.T) {
				t.Parallel()
				args := append(append([]string{"-n", "4"}, lib.flags...), lib.build(l, t, c.program))
				l.run(t, job{hosts: "w0:2,w1:2", args: append(args, c.args...)}).Fails(t, c.code, c.cause)
			})
		}
	}
}
