package launcher

import (
	"slices"
	"strings"
	"testing"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/iof"
)

// What ranks wrote reaches the verdict with the time at which it came: rank 2 said why it fails, and was stopped before it ended;
// what rank 3 says after the stop counts for nothing.
func TestWhatRanksWroteReachesTheVerdict(t *testing.T) {
	const trace = "Traceback (most recent call last):\n  File \"x\", line 1\n"
	r := aboutToLaunch(t)
	r.cfg.Stderr = &strings.Builder{}
	defer stopTimers(r.timers.quiet, r.timers.grace, r.timers.bound)
	var err error
	if r.sink, err = iof.New(iof.Config{Ranks: 4}); err != nil {
		t.Fatal(err)
	}
	write := func(rank int, text string) { r.sink.Write(rank, job.Stderr, []byte(trace+text), false, time.Time{}) }
	write(0, "RuntimeError: [./gloo/transport/tcp/pair.cc:598] Connection closed by peer [10.0.0.1]:33969\n")
	write(2, "ValueError: loss is nan\n")
	for rank := range uint32(4) {
		r.handle(event{host: int(rank / 2), frame: &apiv1.Frame{Body: &apiv1.Frame_Started{Started: &apiv1.Started{Rank: rank, Pid: 1}}}})
	}
	for _, m := range []*apiv1.Exited{{Rank: 0, Code: 1}, {Rank: 2, Signal: 15, StoppedByUs: true}} {
		m.Pmi = apiv1.PmiState_PMI_FINALIZED
		r.handle(event{host: int(m.Rank / 2), at: time.Millisecond, frame: &apiv1.Frame{Body: &apiv1.Frame_Exited{Exited: m}}})
		r.judge()
	}
	write(3, "KeyError: 'x'\n")
	r.hear()
	want := []string{"rank 2 on w1 failed: ValueError: loss is nan", "then: rank 0 on w0 exited with code 1"}
	if lines, code := r.verdict.Explain(), r.verdict.Exit(); !slices.Equal(lines, want) || code != 1 {
		t.Errorf("exit code %d, %q", code, lines)
	}
}
