package lab

import (
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
)

// judged is a test whose failures are what is tested.
type judged struct {
	testing.TB
	said []string
}

func (j *judged) Helper() {}
func (j *judged) Errorf(format string, args ...any) {
	j.said = append(j.said, fmt.Sprintf(format, args...))
}
func (j *judged) Fatalf(format string, args ...any) { j.Errorf(format, args...); runtime.Goexit() }

// of is how many failures a judgement has.
func of(t *testing.T, judge func(testing.TB)) int {
	t.Helper()
	j := &judged{TB: t}
	done := make(chan struct{})
	go func() { defer close(done); judge(j) }()
	<-done
	return len(j.said)
}

func TestResultsAreJudged(t *testing.T) {
	const bound = time.Minute
	r := Run(t, bound, exec.Command("sh", "-c", "echo out; echo mpiup: err >&2; exit 3"))
	killed := Run(t, bound, exec.Command("sh", "-c", "kill -9 $$"))
	fine := Run(t, bound, exec.Command("true"))
	for name, c := range map[string]struct {
		judge func(testing.TB)
		want  int
	}{
		"as it was":           {func(t testing.TB) { r.Fails(t, 3, "err"); r.Ends(t, 3, "out\n", "mpiup: "); fine.OK(t) }, 0},
		"another code":        {func(t testing.TB) { r.Fails(t, 4, "err") }, 1},
		"another text":        {func(t testing.TB) { r.Fails(t, 3, "out", "err") }, 1},
		"another output":      {func(t testing.TB) { r.Ends(t, 3, "out", "mpiup: ") }, 1},
		"no standard error":   {func(t testing.TB) { r.Ends(t, 3, "out\n", "") }, 1},
		"no success":          {func(t testing.TB) { r.OK(t) }, 1},
		"success with a word": {func(t testing.TB) { Result{Stderr: "mpiup: so"}.OK(t) }, 1},
		"a signal":            {func(t testing.TB) { killed.Fails(t, 137) }, 0},
		"it hangs":            {func(t testing.TB) { Run(t, time.Millisecond, exec.Command("sleep", "1000")) }, 1},
	} {
		if got := of(t, c.judge); got != c.want {
			t.Errorf("%s: %d failures, not %d", name, got, c.want)
		}
	}
}

func TestOutputIsWatched(t *testing.T) {
	p, err := StartHere(exec.Command("sh", "-c", "echo ready; read line; echo got $line >&2"))
	if err != nil {
		t.Fatal(err)
	}
	p.Says(t, "ready")
	if err := p.Until(p.Stderr, "never"); err == nil || !strings.Contains(err.Error(), "ended") {
		t.Errorf("a text that never came: %v", err)
	}
	if err := p.Until(p.Stderr, "got"); err != nil {
		t.Error(err)
	}
	p.Wait(t).Fails(t, 0, "got")
}
