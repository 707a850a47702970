// Package stdio carries the standard streams of one rank: what it writes becomes chunks, and
// what the launcher sends becomes its standard input.
//
//	rank ──pipe──▶ reader ──▶ cut at the last line end ──▶ Emit(Chunk) ──▶ launcher
//	                  ▲                                                       │
//	                  └────────── window: bytes in flight ◀──── Grant(n) ─────┘
//
// A reader takes what the pipe has, up to the free part of the window, and emits everything through the last line end
// ('\n' or '\r'). It holds the rest of the last line until the line's end arrives. It emits that rest as it is
// (Chunk.Partial) when it gets long, after Config.Quiet, and at the end of the stream. Every byte is emitted once, in
// order, unchanged.
//
// Without free window the pump does not read, the pipe fills, and the rank blocks in write(2). Twice the window
// bounds the memory for a rank: the pump copies chunks of less than half a buffer out of it. The number of chunks in
// flight has a limit too.
//
// Concurrency: a Pump and an Input are run by one goroutine each (Run), which ends all that it
// started before it returns. Emit is called from one goroutine per stream. Grant, Write and
// CloseWrite may be called from any goroutine and never block.
//
// The package does not start processes (agent/reap), number or send frames (internal/wire),
// or merge the output of ranks (launcher/iof).
package stdio

import (
	"sync"
	"time"

	"github.com/mpiup/mpiup/internal/job"
)

// Chunk is a piece of a rank's output.
type Chunk struct {
	Stream  job.Stream
	Data    []byte    // never empty; the receiver's own
	Partial bool      // does not end at a line end
	Time    time.Time // when its last byte was read

	buf *buffer // what Data lies in, if Release may use it again
}

// Release gives the memory of Data back for later chunks. Calling it is optional; after it
// Data must not be used, by anyone.
func (c *Chunk) Release() {
	if c.buf != nil {
		buffers.Put(c.buf)
	}
	c.buf, c.Data = nil, nil
}

// bufferSize is what one read takes at most. A pipe holds 64 KiB unless enlarged, and larger
// reads fall out of a core's cache before they are sent.
const bufferSize = 64 << 10

type buffer [bufferSize]byte

// buffers is shared by all ranks: a stream that waits for data holds none.
var buffers = sync.Pool{New: func() any { return new(buffer) }}
