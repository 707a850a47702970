// Package wire carries a session's frames between a launcher and an agent so that a broken
// connection loses nothing, doubles nothing and disturbs no rank.
//
// Each side holds a Link for the life of the session and runs it over one stream after
// another. Frames that matter are numbered 1, 2, ... in each direction and kept until the
// other side has acknowledged them; Open and Opened tell what each side has received, and
// what is missing is sent again:
//
//	launcher Link ──seq 1,2,3 ack 7──▶ stream ──▶ agent Link     deliver(1) deliver(2) deliver(3)
//	              ◀──seq 8,9  ack 3───        ◀──
//	     (stream breaks; new stream: Open{received 9}, Opened{received 3}; 4,5 follow)
//
// Heartbeats and bare acknowledgements have seq 0. The pump that owns the stream sends them, also when
// there is nothing to say. They renew the other side's lease.
//
// Concurrency: Send may be called from anywhere and never waits for the network; deliver is
// called by one goroutine at a time, in order, and must not block. Run blocks for the life of
// one stream. Wait returns when no goroutine of the Link is left.
//
// The package does not dial, listen, or decide that a silence has lasted too long. It tells how long, by a Clock that
// counts only time in which this process itself ran.
package wire
