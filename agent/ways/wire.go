package ways

import "time"

// A Server and who asks it measure the way between two hosts as MPI's traffic would take it: a TCP connection to a port
// that libraries may listen on.
//
//	who asks (askWay)                              who answers (Server), for a bounded time
//	  token (16 bytes), kind (1 byte)   ─▶       closes when the token is another
//	  'e': a byte, again and again      ◀─▶      the same byte            round trip
//	       64 KiB                       ◀─▶      the same 64 KiB          do large packets pass?
//	  's': as many as pass in a time    ─▶       their number, 8 bytes    bandwidth
//
// Small packets that pass where large ones do not are an MTU that does not fit (an overlay network); a port
// that does not answer is a NetworkPolicy's, mostly. Nothing is encrypted or kept: the bytes are zeros.
//
// A Server listens on the addresses that it is given alone. It serves some connections at a time, each for a bounded
// time, and ends with its context. Its ports are free at once then: where a NetworkPolicy names MPI's ports they are
// few.

// Token is what both sides must know, so that a stranger's connection is not served. It is no secret that
// protects anything.
type Token [16]byte

// Bounds, of both sides.
const (
	connectTime = 5 * time.Second
	answerTime  = 5 * time.Second
	largeBlock  = 64 << 10
	smallTurns  = 40 // round trips that are measured
	sinkTime    = 200 * time.Millisecond
	serveTime   = 20 * time.Second // of one connection
	maxServed   = 512              // connections at a time
	maxEcho     = 1 << 20          // bytes of one connection
)

const (
	kindEcho = 'e'
	kindSink = 's'
)
