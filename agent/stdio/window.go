package stdio

import (
	"sync"

	"github.com/mpiup/mpiup/internal/job"
)

// window counts the bytes of one rank in flight, both streams together, and the chunks they are in. Each chunk costs
// memory on its way, so many tiny ones count as well.
//
// Standard output leaves the last eighth to standard error: a rank that floods one can still
// say on the other why it fails.
type window struct {
	wake [2]chan struct{} // one token for each stream: something is free again

	mu     sync.Mutex
	size   int     // guarded by mu
	free   int     // guarded by mu
	limit  int     // chunks in flight at most, guarded by mu
	chunks []int32 // sizes of the chunks in flight from head on, oldest first, guarded by mu
	head   int     // guarded by mu
	back   int     // bytes granted of chunks[head], guarded by mu
}

func newWindow(size int) *window {
	return &window{
		wake:  [2]chan struct{}{make(chan struct{}, 1), make(chan struct{}, 1)},
		size:  size,
		free:  size,
		limit: job.OutputChunks(size),
	}
}

// take reserves up to n bytes for stream s. It returns 0 when too little is free to be worth a
// chunk; the stream is woken when that has changed.
func (w *window) take(s job.Stream, n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	free, chunks := w.free, w.limit
	if s == job.Stdout {
		free -= w.size / 8
		chunks -= w.limit / 8
	}
	if free < w.least() || len(w.chunks)-w.head >= chunks {
		return 0
	}
	n = min(n, free)
	w.free -= n
	return n
}

// least is the free space below which a read would only make crumbs. Both streams' held tails
// (a quarter each, at most) and the reserve leave more than it, so it is always reached again.
func (w *window) least() int { return max(1, min(bufferSize/4, w.size/8)) }

// put returns n bytes that were taken and not read.
func (w *window) put(n int) {
	w.mu.Lock()
	w.free += n
	w.mu.Unlock()
	w.signal()
}

// sent records a chunk of n bytes on its way.
func (w *window) sent(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.head > 64 && w.head > len(w.chunks)/2 {
		w.chunks = append(w.chunks[:0], w.chunks[w.head:]...)
		w.head = 0
	}
	w.chunks = append(w.chunks, int32(n))
}

// grant takes n bytes out of flight. More than is in flight is ignored.
func (w *window) grant(n int) {
	w.mu.Lock()
	for n > 0 && w.head < len(w.chunks) {
		k := min(n, int(w.chunks[w.head])-w.back)
		n -= k
		w.back += k
		w.free += k
		if w.back == int(w.chunks[w.head]) {
			w.head++
			w.back = 0
		}
	}
	w.mu.Unlock()
	w.signal()
}

func (w *window) signal() {
	for _, c := range w.wake {
		poke(c)
	}
}
