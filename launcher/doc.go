// Package launcher is one run of a job, from a list of hosts to an exit code.
//
//	host sources ─▶ gather ─▶ place ─▶ launch ─▶ wire up ─▶ run ─▶ verdict
//	 (hosts.go)   (gather.go)           │  one session per host (link.go), frames both ways
//	                                    ▼
//	 host 0 ◀──────────────── loop: one goroutine owns ────────────────▶ host n
//	           Output ──▶ iof.Sink      rank and job states (states.go)
//	           Exited, FenceEnter ──▶   fences, names, fetches (hub.go)
//	                                    whose failure it is (verdict.go)
//
// A rank and the job move through these states:
//
//	created ─started─▶ running ─exited─▶ exited
//	   ├─start-failed─▶ start-failed       (created, running ─host lost─▶ lost)
//
//	gathering ─▶ placing ─▶ launching ─▶ wiring ─▶ running ─▶ done
//	                           └────────────┴─────────┴─failed─▶ stopping ─▶ done
//
// Concurrency: Run, Exec, Peers and Shutdown block until all they started has ended. Within a
// run each host has one goroutine that keeps its session on a connection; frames go from there
// to the one loop goroutine, which owns all state, but for output, which goes straight to
// iof.Sink and never waits.
//
// The package starts no process, signals none, and decides nothing from gossip: a host is lost
// when its own session's stream says so. It does not read flags or the environment; cmd/mpiup
// fills a Config.
package launcher
