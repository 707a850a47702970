package apiv1

import (
	"reflect"
	"testing"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
)

// What an agent packs a launcher unpacks alike, each field of it.
func TestThereAndBack(t *testing.T) {
	a := job.Activity{Works: idset.Of(0), Busy: idset.Of(1), Idle: idset.Of(2, 3), Places: []job.Place{{Where: "poll", IDs: idset.Of(3)}}, Looked: job.AtOutput | job.AtGPUs | job.AtPMI}
	if got, err := PackActivity(0, a).Seen(4); err != nil || !reflect.DeepEqual(got, a) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := PackActivity(0, a).Seen(3); err == nil {
		t.Error("a rank that is none")
	}
	r := job.Waits{ID: 3, State: job.Measured, Seq: 9, Partial: 2, Inside: 3, Elsewhere: 4, Call: "MPI_Recv", Called: 5, Step: 6, StepCalls: 7, Points: []job.WaitPoint{{Seq: 1, Waited: 2, Other: 3, Loose: 4, At: 5}},
		RankWork: job.RankWork{CPU: 1, Queued: 2, Blocked: 3, ReadBack: 4, Far: 0.333, GPU: job.SlowByPower, Segments: 6, Resent: 7, Throttled: 8, Memory: 9, Storage: 10, LinkErrors: 11, MHz: 12}}
	for _, v := range []reflect.Value{reflect.ValueOf(r), reflect.ValueOf(r.RankWork)} {
		for i := range v.NumField() {
			if v.Field(i).IsZero() {
				t.Errorf("%s is not looked at", v.Type().Field(i).Name)
			}
		}
	}
	m := PackHost(7, r.RankWork)
	m.Ranks = []*RankWaited{PackWaits(r)}
	at, got, err := m.Seen(m.Ranks, idset.Of(3))
	if err != nil || at != 7 || len(got) != 1 || !reflect.DeepEqual(got[0], r) {
		t.Errorf("%v, %+v, %v", at, got, err)
	}
	m.Ranks[0].Segments, m.Ranks[0].CpuNs, m.AtNs = 0, -1, 1<<62
	if at, got, err = m.Seen(m.Ranks, idset.Of(3)); err != nil || at != maxSum || got[0].CPU != 0 || got[0].Segments != m.Segments || got[0].Resent != m.Resent {
		t.Errorf("%v, %+v, %v", at, got, err)
	}
	if _, _, err := m.Seen(m.Ranks, idset.Of(4)); err == nil {
		t.Error("a rank of another host")
	}
}

// What is seen crosses the network with the protocol's numbers.
func TestNumbersOfWhatIsSeen(t *testing.T) {
	for ours, want := range map[job.Looked]Looked{job.AtOutput: Looked_LOOKED_OUTPUT, job.AtIO: Looked_LOOKED_IO, job.AtSockets: Looked_LOOKED_SOCKETS,
		job.AtGPUs: Looked_LOOKED_GPU, job.AtPMI: Looked_LOOKED_PMI} {
		if Looked(ours) != want {
			t.Errorf("%v is %d here and %d there", want, ours, want)
		}
	}
	for ours, want := range map[job.WatchState]WatchState{job.Unwatched: WatchState_WATCH_NEVER, job.Measured: WatchState_WATCH_MEASURED,
		job.Finalized: WatchState_WATCH_FINALIZED, job.Unknown: WatchState_WATCH_UNKNOWN, job.Lost: WatchState_WATCH_LOST} {
		if WatchState(ours) != want {
			t.Errorf("%v is %d here and %d there", want, ours, want)
		}
	}
	if name := (&RankWaited{Call: "MPI_Barrier\n"}).InCall(); name != "" {
		t.Errorf("%q", name)
	}
}
