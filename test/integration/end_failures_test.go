package integration

import (
	"strings"
	"testing"
)

func TestFailuresOfMPIPrograms(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	for _, c := range []struct {
		name, program, args string
		code                int
		says                []string
	}{
		{"abort", "abort", "42", 42, []string{"rank 1 on w0 called MPI_Abort with code 42"}},
		{"abort on another host", "abort", "7 4", 7, []string{"rank 4 on w2 called MPI_Abort with code 7"}},
		{"abort with 0", "abort", "0", 1, []string{"rank 1 on w0 called MPI_Abort with code 0"}},
		{"abort with 256", "abort", "256", 1, []string{"called MPI_Abort with code 256"}},
		{"abort with 300", "abort", "300", 44, []string{"called MPI_Abort with code 300"}},
		{"exit code", "exitcode", "3 5", 3, []string{"rank 5 on w2 exited with code 3"}},
		{"exit code without finalize", "exitcode", "5 2 without", 5, []string{"rank 2 on w1 exited with code 5"}},
		{"0 without finalize", "exitcode", "0 2 without", 1, []string{"rank 2 on w1 exited with code 0 after MPI_Init without MPI_Finalize"}},
		{"0 before init", "exitcode", "0 2 before", 247, []string{"rank 2"}},
		{"3 before init", "exitcode", "3 2 before", 3, []string{"rank 2 on w1 exited with code 3"}},
		{"SEGV in a barrier", "exitcode", "11 4 signal", 139, []string{"rank 4 on w2 was killed by signal 11 (SIGSEGV)"}},
		{"KILL in a barrier", "exitcode", "9 3 signal", 137, []string{"rank 3 on w1 was killed by signal 9 (SIGKILL)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"-n", "6", l.program(t, c.program)}, strings.Fields(c.args)...)
			l.run(t, job{hosts: three, args: args}).Fails(t, c.code, c.says...)
		})
	}
}

// A rank that never calls MPI_Init, or is late for MPI_Finalize, is named with those who wait for it.
func TestWhoWaitsForWhomAtTheTimeLimit(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	for _, c := range []struct {
		name, script string
		says         []string
	}{
		{"one never calls MPI_Init", `[ $MPIUP_RANK = 2 ] && exec sleep 100; exec ` + l.program(t, "hello"),
			[]string{"rank 2 (w1, pid ", ") has not called MPI_Init; ranks 0-1,3-5 have waited for it", "stack of rank 2 (w1, pid "}},
		{"programs without MPI hear nothing of it", "exec sleep 100", []string{"the job ran longer than --timeout 4s\nmpiup: stack of ranks 0-5 "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l.run(t, job{hosts: three, args: []string{"-n", "6", "--timeout", "4", "sh", "-c", c.script}}).Fails(t, 110, c.says...)
		})
	}
}

func TestFailuresOfOtherPrograms(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	const waits = `trap 'exit 9' TERM; while :; do sleep 0.05; done`
	for _, c := range []struct {
		name, script string
		flags        string
		code         int
		says         []string
	}{
		{"first failure wins", `[ $MPIUP_RANK = 3 ] && exit 5; ` + waits, "", 5, []string{"rank 3 on w1 exited with code 5"}},
		// Both ranks of w0 fail: the one that its clock saw first counts.
		{"first on one host", `case $MPIUP_RANK in
			0) trap '' TERM; while [ ! -e $DIR/pid ] || kill -0 $(cat $DIR/pid) 2>/dev/null; do sleep 0.05; done; exit 3;;
			1) echo $$ >$DIR/pid.new; mv $DIR/pid.new $DIR/pid; exit 4;;
			*) ` + waits + `;; esac`, "", 4, []string{"rank 1 on w0 exited with code 4"}},
		{"signal", `[ $MPIUP_RANK = 4 ] && kill -ABRT $$; ` + waits, "", 134, []string{"rank 4 on w2 was killed by signal 6 (SIGABRT)"}},
		{"those that ignore TERM are killed", `[ $MPIUP_RANK = 0 ] && exit 6; trap '' TERM; while :; do sleep 0.05; done`, "--grace 1", 6,
			[]string{"rank 0 on w0 exited with code 6"}},
		{"timeout", waits, "--timeout 1", 110, []string{"--timeout 1s"}},
		{"exit code 255", `exit 255`, "", 255, []string{"exited with code 255"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"-n", "6", "-x", "DIR=" + l.folder(t)}, strings.Fields(c.flags)...)
			l.run(t, job{hosts: three, args: append(args, "sh", "-c", c.script)}).Fails(t, c.code, c.says...)
		})
	}
}
