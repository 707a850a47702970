package stacks

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

// of is "rank means frame|frame" of each rank of a host's.
func of(host string, lines ...string) []Rank {
	reply := &apiv1.StacksReply{Stacks: []*apiv1.RankStack{nil}}
	for _, l := range lines {
		m := &apiv1.RankStack{Launcher: "l", Job: "j", Pid: 100}
		var frames string
		fmt.Sscan(l, &m.Rank, &m.Means, &frames)
		m.Frames = strings.Split(frames, "|")
		reply.Stacks = append(reply.Stacks, m)
	}
	return Of(host, reply)
}

func TestGroups(t *testing.T) {
	many := make([]string, 0, 300)
	for i := range 300 {
		many = append(many, fmt.Sprintf("%d gdb poll|MPI_Barrier|main", 2*i))
	}
	for _, tt := range []struct {
		name string
		list []Rank
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
			if d := cmp.Diff(tt.want, Text(GroupRanks(tt.list))); d != "" {
				t.Error(d)
			}
		})
	}
}

// Several jobs are told apart, and what no agent would say is left out.
func TestJobs(t *testing.T) {
	list := Of("w0", &apiv1.StacksReply{Stacks: []*apiv1.RankStack{
		{Launcher: "b", Job: "x", Frames: []string{"a\nb"}}, {Launcher: "a", Job: "x", Number: 1}, {Launcher: "a", Job: "x"}, {Rank: 1 << 30},
	}})
	want := `job x, by a
rank 0 (w0, pid 0), 1 of 1, by :
job x (spawned, 1), by a
rank 0 (w0, pid 0), 1 of 1, by :
job x, by b
rank 0 (w0, pid 0), 1 of 1, by :
    a b
`
	if d := cmp.Diff(want, Text(GroupRanks(list))); d != "" {
		t.Error(d)
	}
}
