package hang

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// of is "rank means frame|frame" of each rank of a host's.
func of(host string, lines ...string) (list []Whereabouts) {
	for _, l := range lines {
		r := Whereabouts{Launcher: "l", Job: "j", Host: host, PID: 100}
		var frames string
		fmt.Sscan(l, &r.Rank, &r.Means, &frames)
		r.Frames = strings.Split(frames, "|")
		list = append(list, r)
	}
	return list
}

func TestGroups(t *testing.T) {
	many := make([]string, 0, 300)
	for i := range 300 {
		many = append(many, fmt.Sprintf("%d gdb poll|MPI_Barrier|main", 2*i))
	}
	for _, tt := range []struct {
		name string
		list []Whereabouts
		want string
	}{
		{"nothing", nil, "no ranks run\n"},
		{"one sleeps, the others are at several places of a barrier",
			append(of("w0", "0 gdb epoll_wait|opal_progress|PMPI_Barrier|main", "1 gdb opal_progress|PMPI_Barrier|main"),
				of("w1", "2 gdb nanosleep|sleep|load|main", "3 gdb PMPI_Barrier|main")...),
			`job j, by l
rank 2 (w1, pid 100), 1 of 4, by gdb:
    nanosleep
    sleep
    load
    main
ranks 0-1,3 (w0, w1), 3 of 4, by gdb:
    PMPI_Barrier
    main
`},
		{"two calls of MPI: the outer one counts", of("w0", "0 gdb MPI_Send|MPI_Bcast|main", "1 gdb MPI_Recv|MPI_Bcast|main"),
			"job j, by l\nranks 0-1 (w0), 2 of 2, by gdb:\n    MPI_Bcast\n    main\n"},
		{"of one size the lowest rank first, and means apart", of("w0", "1 py-spy f", "0 kernel f"),
			"job j, by l\nrank 0 (w0, pid 100), 1 of 2, by kernel:\n    f\nrank 1 (w0, pid 100), 1 of 2, by py-spy:\n    f\n"},
		{"very many", append(of("w0", many...), of("w1", "1 gdb main")...),
			"job j, by l\nrank 1 (w1, pid 100), 1 of 301, by gdb:\n    main\nranks 0 and others (w0), 300 of 301, by gdb:\n    MPI_Barrier\n    main\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, StacksText(GroupStacks(tt.list))); d != "" {
				t.Error(d)
			}
		})
	}
}

// Several jobs are told apart.
func TestJobs(t *testing.T) {
	list := []Whereabouts{{Launcher: "b", Job: "x", Host: "w0", Frames: []string{"a b"}}, {Launcher: "a", Job: "x", Number: 1, Host: "w0"}, {Launcher: "a", Job: "x", Host: "w0"}}
	want := `job x, by a
rank 0 (w0, pid 0), 1 of 1, by :
job x (spawned, 1), by a
rank 0 (w0, pid 0), 1 of 1, by :
job x, by b
rank 0 (w0, pid 0), 1 of 1, by :
    a b
`
	if d := cmp.Diff(want, StacksText(GroupStacks(list))); d != "" {
		t.Error(d)
	}
}
