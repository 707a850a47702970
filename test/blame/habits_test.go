package blame

import "fmt"

// habit is what jobs do that look idle and go on: none may be ended.
type habit struct {
	name, stack, how string
	ci               bool
}

// Each takes longer than the time after which a stall ends its run.
const habitSeconds = 11

var habitFlags = []string{"--stall-timeout", "5s", "--on-stall", "abort"}

// program is the argv of ranks.
func (h habit) program(dir string) []string {
	seconds := fmt.Sprint(habitSeconds)
	if program := world.programs[h.stack]; program != "" {
		return []string{program, seconds, h.how, dir, "habit"}
	}
	return []string{world.python[h.stack], world.ranks, h.stack, seconds, h.how, dir, "habit"}
}

// habits are all.
func habits() (all []habit) {
	for _, stack := range []string{"MPICH", "Open MPI"} {
		for _, h := range []habit{
			{name: "reads slowly from a socket", how: "recv"}, {name: "reads slowly from a pipe", how: "pipe"}, {name: "reads a mapped file", how: "map"},
			{name: "one rank computes", how: "compute"}, {name: "a child computes", how: "child"}, {name: "all sleep", how: "sleep_all"},
			{name: "all save", how: "checkpoint"}, {name: "rank 0 saves by a map", how: "msync"},
		} {
			h.stack = stack
			all = append(all, h)
		}
	}
	for _, stack := range []string{"sockets", "torch"} {
		for _, h := range []habit{
			{name: "rank 0 evaluates", how: "evaluate"}, {name: "all sleep", how: "sleep_all"}, {name: "reads slowly from a socket", how: "recv"},
			{name: "a child computes", how: "child"}, {name: "rank 0 saves", how: "checkpoint"}, {name: "reads a mapped file", how: "load"},
		} {
			h.stack = stack
			all = append(all, h)
		}
	}
	return all
}
