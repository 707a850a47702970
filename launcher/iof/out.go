package iof

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/mpiup/mpiup/launcher/streams"
)

// out writes to one of the launcher's streams: small things through a buffer, large ones
// without a copy. It counts what has left, and after an error forgets what it is given.
type out struct {
	to     io.Writer // as configured
	name   string
	done   func(k laneKey, n int)
	broken func(error)

	w       io.Writer // nil until open
	fd      *streams.Output
	buf     []byte
	credits []credit // of what is in buf
	err     error
	midline bool // the last byte written was no line end
	stopped atomic.Bool
	status  *Status // below what is written; nil: none
}

type credit struct {
	lane laneKey
	n    int
}

const (
	outBuffer = 64 << 10
	// largeWrite is from where a write of its own costs less than a copy to the buffer.
	largeWrite = 16 << 10
)

func (o *out) open() {
	o.w = o.to
	if f, ok := o.to.(*os.File); ok {
		fd, err := streams.OpenOutput(f)
		if err != nil {
			o.fail(err)
			return
		}
		o.fd, o.w = fd, fd
		if o.stopped.Load() {
			fd.Interrupt()
		}
	}
}

// credit counts n bytes of a lane that are in buf, or will never be written.
func (o *out) credit(k laneKey, n int) {
	if n == 0 {
		return
	}
	if last := len(o.credits) - 1; last >= 0 && o.credits[last].lane == k {
		o.credits[last].n += n
		return
	}
	o.credits = append(o.credits, credit{k, n})
}

// exact writes data as it is and counts it.
func (o *out) exact(k laneKey, data []byte) {
	if len(data) < largeWrite {
		o.buf = append(o.buf, data...)
		o.credit(k, len(data))
		o.full()
		return
	}
	o.flush()
	o.write(data)
	o.done(k, len(data))
}

func (o *out) full() {
	if len(o.buf) >= outBuffer {
		o.flush()
	}
}

func (o *out) flush() {
	if len(o.buf) > 0 {
		o.write(o.buf)
	}
	o.buf = o.buf[:0]
	for _, c := range o.credits {
		o.done(c.lane, c.n)
	}
	o.credits = o.credits[:0]
}

func (o *out) write(b []byte) {
	if o.err != nil || o.stopped.Load() {
		return
	}
	o.midline = b[len(b)-1] != '\n'
	if _, err := o.status.before(o.w, b); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		o.fail(err)
	}
}

func (o *out) fail(err error) {
	o.err = fmt.Errorf("%s: %w", o.name, err)
	if o.broken != nil {
		o.broken(o.err)
	}
}

func (o *out) close() error {
	o.flush()
	if o.fd != nil {
		o.fd.Close()
	}
	return o.err
}

func (o *out) interrupt() {
	o.stopped.Store(true)
	if o.fd != nil {
		o.fd.Interrupt()
	}
}
