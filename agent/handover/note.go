package handover

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"google.golang.org/protobuf/proto"
)

// fenceOf is the key of a fence. Any other question's is its number, which no other has of whatever kind (agent/exchange).
func fenceOf(set string, epoch uint64) string { return fmt.Sprintf("%s %d", set, epoch) }

// note keeps what a successor is to be told of a frame that is no output, if anything. mu is held.
func (r *Record) note(f *apiv1.Frame) bool {
	switch b := f.Body.(type) {
	case *apiv1.Frame_Started, *apiv1.Frame_StartFailed, *apiv1.Frame_Exited, *apiv1.Frame_WireupFailed, *apiv1.Frame_Aborted:
		r.told = append(r.told, r.entry(f))
	case *apiv1.Frame_OutputEnd:
		r.ends = append(r.ends, r.entry(f))
	case *apiv1.Frame_Activity:
		r.newer(fmt.Sprint("activity ", b.Activity.Job), f)
	case *apiv1.Frame_Chosen:
		c := b.Chosen
		if !c.Seen && (!c.Sure || c.Library == "") { // a guess
			return false
		}
		r.newer(fmt.Sprint("uses ", c.Job, c.App), (&apiv1.Chosen{Job: c.Job, App: c.App, Pmi: c.Pmi, Library: c.Library, Seen: true}).Frame())
	case *apiv1.Frame_ContainerMemory:
		r.newer("memory", f)
	case *apiv1.Frame_Met:
		r.newer(fmt.Sprint("met ", b.Met.Job), f)
	case *apiv1.Frame_Flight:
		r.newer(fmt.Sprint("flight ", b.Flight.Job, b.Flight.Rank), f)
	case *apiv1.Frame_FenceEnter:
		r.open[fenceOf(b.FenceEnter.Set, b.FenceEnter.Epoch)] = r.entry(f)
	case *apiv1.Frame_FetchRequest:
		r.open[b.FetchRequest.Id] = r.entry(f)
	case *apiv1.Frame_SpawnRequest:
		r.open[b.SpawnRequest.Id] = r.entry(f)
	case *apiv1.Frame_NameRequest:
		if b.NameRequest.Op == apiv1.NameOp_NAME_UNWATCH {
			r.answered(b.NameRequest.Id)
			return false
		}
		r.open[b.NameRequest.Id] = r.entry(f)
	case *apiv1.Frame_Rendezvous:
		r.forget()
		r.passed = append(r.passed, r.entry(f))
	default:
		return false
	}
	return true
}

// entry is a frame of now. Its body is shared with who carries it, and nobody changes it. mu is held.
func (r *Record) entry(f *apiv1.Frame) entry {
	r.count++
	r.size += proto.Size(f)
	return entry{frame: &apiv1.Frame{Body: f.Body}, at: r.now(), seq: r.count}
}

// newer keeps a frame in the place of the last of its kind. mu is held.
func (r *Record) newer(kind string, f *apiv1.Frame) {
	if old, ok := r.latest[kind]; ok {
		r.size -= proto.Size(old.frame)
	}
	r.latest[kind] = r.entry(f)
}

// answered forgets a question, if it is there. mu is held.
func (r *Record) answered(key any) {
	if e, ok := r.open[key]; ok {
		r.size -= proto.Size(e.frame)
		delete(r.open, key)
	}
}

// forget lets go what a launcher has passed on long ago. mu is held.
func (r *Record) forget() {
	now := r.now()
	for !r.held && len(r.passed) > 0 && now-r.passed[0].at > recent {
		r.size -= proto.Size(r.passed[0].frame)
		r.passed = r.passed[1:]
	}
}

// Got notes what the launcher sends.
func (r *Record) Got(f *apiv1.Frame) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch b := f.Body.(type) {
	case *apiv1.Frame_Launch:
		r.window = max(r.window, int(b.Launch.GetJob().GetWindow()))
	case *apiv1.Frame_Credit:
		if t := r.output[b.Credit.Rank]; t != nil {
			t.take(int(b.Credit.Bytes))
		}
	case *apiv1.Frame_FenceResult:
		key := fenceOf(b.FenceResult.Set, b.FenceResult.Epoch)
		if _, open := r.open[key]; !open {
			return
		}
		r.answered(key)
		if r.done = append(r.done, key); len(r.done) > maxDone {
			r.done = r.done[1:]
		}
	case *apiv1.Frame_NameResult:
		r.answered(b.NameResult.Id)
	case *apiv1.Frame_FetchResult:
		r.answered(b.FetchResult.Id)
	case *apiv1.Frame_SpawnResult:
		r.answered(b.SpawnResult.Id)
	}
}

// resumed is the first that a successor is told. mu is held.
func (r *Record) resumed() *apiv1.Resumed {
	m := &apiv1.Resumed{Fences: slices.Clone(r.done)}
	if r.held {
		m.LostMs = uint64((r.now() - r.lost) / time.Millisecond)
	}
	for _, id := range slices.Sorted(maps.Keys(r.output)) {
		if n := r.output[id].dropped; n > 0 {
			m.Dropped = append(m.Dropped, &apiv1.Dropped{Rank: id, Bytes: n})
		}
	}
	return m
}

// replay is what a successor is told: all that is noted, and what a launcher is told once and only once, as far as the one before
// has not acknowledged it. mu is held.
func (r *Record) replay(unacknowledged []*apiv1.Frame) (frames []*apiv1.Frame) {
	for _, e := range inOrder(slices.Concat(r.told, r.passed, slices.Collect(maps.Values(r.latest)), slices.Collect(maps.Values(r.open)))) {
		frames = append(frames, r.aged(e))
	}
	for _, f := range append(unacknowledged, r.late...) {
		switch f.Body.(type) {
		case *apiv1.Frame_Event, *apiv1.Frame_Control, *apiv1.Frame_Notice:
			frames = append(frames, &apiv1.Frame{Body: f.Body})
		}
	}
	for _, c := range r.chunks() {
		frames = append(frames, c.frame())
	}
	for _, e := range r.ends {
		frames = append(frames, r.aged(e))
	}
	return frames
}

// inOrder sorts entries as they came.
func inOrder(list []entry) []entry {
	slices.SortFunc(list, func(a, b entry) int { return cmp.Compare(a.seq, b.seq) })
	return list
}

// aged is a frame of before.
func (r *Record) aged(e entry) *apiv1.Frame {
	return &apiv1.Frame{AgeMs: uint64(max((r.now()-e.at)/time.Millisecond, 1)), Body: e.frame.Body}
}
