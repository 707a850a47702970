package stdio

import "bytes"

// holder collects what was read of one stream in a buffer and cuts chunks from it. The first
// n bytes of buf are a line without an end; buf is nil while n is 0 and nothing is being read.
type holder struct {
	buf  *buffer
	n    int
	line int // bytes of one line that are held at most
}

// space is where to read to, at most max bytes.
func (h *holder) space(max int) []byte {
	if h.buf == nil {
		h.buf = buffers.Get().(*buffer)
	}
	return h.buf[h.n:min(len(h.buf), h.n+max)]
}

// idle gives the buffer back if nothing is held.
func (h *holder) idle() {
	if h.buf != nil && h.n == 0 {
		buffers.Put(h.buf)
		h.buf = nil
	}
}

// add takes note of n bytes read into space and returns the chunk that is ready, if any.
func (h *holder) add(n int) (c Chunk, ok bool) {
	end := bytes.LastIndexAny(h.buf[h.n:h.n+n], "\n\r") + 1
	if end > 0 {
		end += h.n
	}
	h.n += n
	switch {
	case end > 0:
		return h.cut(end, false), true
	case h.n >= h.line || h.n == len(h.buf):
		return h.cut(h.n, true), true
	}
	return Chunk{}, false
}

// rest returns what is held, as a partial line.
func (h *holder) rest() (c Chunk, ok bool) {
	if h.n == 0 {
		return Chunk{}, false
	}
	return h.cut(h.n, true), true
}

// cut makes a chunk of the first n bytes. At least half full, the buffer itself goes along;
// otherwise the bytes are copied, so that small chunks do not pin large buffers.
func (h *holder) cut(n int, partial bool) Chunk {
	c := Chunk{Partial: partial}
	old := h.buf
	tail := old[n:h.n]
	h.n = len(tail)
	if n < len(old)/2 {
		c.Data = append(make([]byte, 0, n), old[:n]...)
		copy(old[:], tail)
		return c
	}
	c.Data, c.buf = old[:n:n], old
	h.buf = nil
	if len(tail) > 0 {
		h.buf = buffers.Get().(*buffer)
		copy(h.buf[:], tail)
	}
	return c
}
