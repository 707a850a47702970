package codec

import "sync"

// frameSize is the most bytes of an HTTP/2 DATA frame: gRPC leaves the protocol's initial value
// (RFC 9113, SETTINGS_MAX_FRAME_SIZE).
const frameSize = 16 << 10

// Pool keeps buffers for what gRPC receives (mem.BufferPool). Unlike gRPC's own it hands them out
// as they are: gRPC overwrites all that it asked for.
type Pool struct{ pages sync.Pool }

// Get is a buffer of n bytes of any content.
func (p *Pool) Get(n int) *[]byte {
	if n <= large || n > frameSize {
		b := make([]byte, n)
		return &b
	}
	b, ok := p.pages.Get().(*[]byte)
	if !ok {
		page := make([]byte, frameSize)
		b = &page
	}
	*b = (*b)[:n]
	return b
}

// Put takes a buffer back.
func (p *Pool) Put(b *[]byte) {
	if cap(*b) == frameSize {
		p.pages.Put(b)
	}
}
