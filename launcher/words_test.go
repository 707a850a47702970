package launcher

import (
	"slices"
	"strings"
	"testing"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/iof"
	"github.com/mpiup/mpiup/launcher/run"
)

// What ranks wrote reaches the verdict with the time at which it came: rank 2 said why it fails, and was stopped before it ended;
// what rank 3 says after the stop counts for nothing.
func TestWhatRanksWroteReachesTheVerdict(t *testing.T) {
	const trace = "Traceback (most recent call last):\n  File \"x\", line 1\n"
	r := aboutToLaunch(t, &strings.Builder{})
	var err error
	if r.sink, err = iof.New(iof.Config{Ranks: 4}); err != nil {
		t.Fatal(err)
	}
	write := func(rank int, text string) { r.sink.Write(rank, job.Stderr, []byte(trace+text), false, time.Time{}) }
	write(0, "RuntimeError: [./gloo/transport/tcp/pair.cc:598] Connection closed by peer [10.0.0.1]:33969\n")
	write(2, "ValueError: loss is nan\n")
	for rank := range uint32(4) {
		r.step(run.Frame{Host: int(rank / 2), Frame: (&apiv1.Started{Rank: rank, Pid: 1}).Frame()})
	}
	for _, m := range []*apiv1.Exited{{Rank: 0, Code: 1}, {Rank: 2, Signal: 15, StoppedByUs: true}} {
		m.Pmi = apiv1.PmiState_PMI_FINALIZED
		r.step(run.Frame{Host: int(m.Rank / 2), At: time.Millisecond, Frame: m.Frame()})
		r.step(run.Turn{})
	}
	write(3, "KeyError: 'x'\n")
	r.hear()
	want := []string{"rank 2 on w1 failed: ValueError: loss is nan (x:1)", "rank 0 lost a peer: a consequence"}
	if lines, code := r.run.Verdict().Explain(), r.run.Verdict().Exit(); !slices.Equal(lines, want) || code != 1 {
		t.Errorf("exit code %d, %q", code, lines)
	}
}
