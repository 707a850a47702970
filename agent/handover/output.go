package handover

import (
	"bytes"
	"cmp"
	"slices"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

// chunkCost is what a chunk costs beside its bytes: a process that writes them one by one is kept as little of as another.
const chunkCost = 256

// tail is the output of one process that has not left the launcher, oldest first.
type tail struct {
	chunks  []*chunk
	size    int    // bytes
	dropped uint64 // bytes that nobody gets
}

// chunk is output as a frame has it, less what has left the launcher.
type chunk struct {
	rank    uint32
	stream  apiv1.Stream
	data    []byte
	partial bool
	read    int64  // when, the host's clock
	seq     uint64 // among all entries
	sent    bool   // to the launcher that is there, or was
}

// frame carries the chunk as it is now: what is taken out of it later is another's.
func (c *chunk) frame() *apiv1.Frame {
	return (&apiv1.Output{Rank: c.rank, Stream: c.stream, Data: c.data, Partial: c.partial, TimeNs: c.read}).Frame()
}

// noteOutput keeps a copy: its memory is given back. mu is held.
func (r *Record) noteOutput(o *apiv1.Output, sent bool) {
	t := r.output[o.Rank]
	if t == nil {
		t = &tail{}
		r.output[o.Rank] = t
	}
	r.count++
	t.chunks = append(t.chunks, &chunk{rank: o.Rank, stream: o.Stream, data: bytes.Clone(o.Data), partial: o.Partial, read: o.TimeNs, seq: r.count, sent: sent})
	t.size += len(o.Data)
	if r.held {
		t.cut(r.window)
	}
}

// take takes out what has left the launcher.
func (t *tail) take(n int) {
	for n > 0 && len(t.chunks) > 0 {
		c := t.chunks[0]
		k := min(n, len(c.data))
		n, t.size = n-k, t.size-k
		if c.data = c.data[k:]; len(c.data) == 0 {
			t.chunks = t.chunks[1:]
		}
	}
	if len(t.chunks) == 0 {
		t.chunks = nil
	}
}

// cut drops the oldest until no more than a window is left.
func (t *tail) cut(window int) {
	for len(t.chunks) > 1 && t.size+chunkCost*len(t.chunks) > window {
		n := len(t.chunks[0].data)
		t.chunks, t.size, t.dropped = t.chunks[1:], t.size-n, t.dropped+uint64(n)
	}
}

// chunks are those of all processes, in the order in which they were read. mu is held.
func (r *Record) chunks() (all []*chunk) {
	for _, t := range r.output {
		all = append(all, t.chunks...)
	}
	slices.SortFunc(all, func(a, b *chunk) int { return cmp.Compare(a.seq, b.seq) })
	return all
}
