// Package rendezvous lets the torchruns of several pods make one job, each of which starts the ranks of its own pod: who
// they are, which numbers their ranks have, where these meet, and how all end together. No agent serves anywhere.
//
//	pod w0: torchrun (host, node 0)            pod w1: torchrun               pod w2: torchrun
//	   listens at the endpoint ◀──── hello ────────┤                              │
//	   │                       ───── welcome ─────▶│                              │
//	   │                       ◀──── hello ────────│──────────────────────────────┤
//	   │  enough, or all, are there                │                              │
//	   ├────── begin: node, first rank, world, ───▶│─────────────────────────────▶│  each runs its ranks
//	   │       MASTER_ADDR, MASTER_PORT            │                              │
//	   │                       ◀──── failing ──────┤ a rank failed                │
//	   ├────── end ───────────────────────────────────────────────────────────────▶  its ranks are ended
//	   │                       ◀──── ended ────────┤◀──────────── ended ──────────┤
//	   ├────── verdict: which node, why, code ────▶│─────────────────────────────▶│  exits with that code; or begin again
//
// The host is the torchrun whose pod has the endpoint's address (own.go); its own ranks' part is a node as the others, over a
// pipe. What it decides is register (register.go), which knows no connection:
//
//	gathering │ all are there; enough, and the last call or the time is over ─▶ running │ time over, too few ─▶ over
//	running   │ a node fails, is lost, is taken away; one more comes, where more may ─▶ ending │ all ended well ─▶ over
//	ending    │ all have ended or are lost ─▶ gathering, where ranks start again │ over
//
// A connection begins with a TLS handshake where the host has the job's key, of the protocol "mpiup-torchrun/1", else with that
// word and a line's end. Then come frames both ways: four bytes of length, the first the highest, and that much JSON, an object
// with one member of Message. A frame has at most 16 KiB, of a caller that has not said who it is as well. PyTorch's own torchrun
// would speak first, too: its store's first bytes are known (stranger.go), and the log says who came.
//
// Silence is the kernel's to notice: keep-alive probes find a host that is dead or cut off within half a minute, and a process
// that is starved or stopped still has its kernel's answers. A connection that ends is a node that is lost.
//
// With a static rendezvous (--master-addr) rank 0 listens at the endpoint itself: the host stops listening there as the ranks
// begin, and connections that were made stay. Nobody comes later then.
//
// Concurrency: Join blocks until the node is let in. A Session belongs to one goroutine, but for Failing and Leaving; Close ends
// all that was started.
//
// The package starts no rank, reads no environment and prints nothing: cmd/mpiup runs launcher.Run between Begin and Ended.
package rendezvous
