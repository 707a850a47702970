// Package launcher is one run of a job, from a list of hosts to an exit code.
//
//	host sources ─▶ reach  ─▶ place ─▶ launch ─▶ wire up ─▶ run ─▶ verdict
//	 (launcher/hosts) (launcher/reach)  │  one session per host (launcher/link), frames both ways
//	                                    ▼
//	 host 0 ◀──────────────── loop: one goroutine owns ────────────────▶ host n
//	           Output ──▶ iof.Sink      rank and job states (states.go)
//	           Exited, FenceEnter ──▶   fences, names, fetches (launcher/exchange)
//	                                    whose failure it is (launcher/verdict)
//
// A run begins with one job, and ranks may spawn others (spawn.go, and launcher/spawn for their order), on the run's hosts and on hosts
// that join for it (join.go). Each process has an id that stays its own; frames, fences and exits
// are of ids, whatever the job (places.go, jobs.go):
//
//	ids          0 1 2 3 | 4 5 | 6       hosts  0: w0   1: w1   2: w7, which joined
//	job          0       | 1   | 2       users  know id 5 as "rank 1 of spawned job 1", its lines
//	host of id   0 0 1 1 | 1 2 | 0              as "[1.1] "
//
//	rank ─SpawnRequest─▶ loop: place, join hosts ─Launch{job, base}─▶ every host, also those that
//	     ◀─SpawnResult─ once all of it runs, or why not                get none of its processes
//
// All jobs are one run: it ends when every process has, and a rank that fails in any of them ends
// it. A job that cannot be started as a whole is no failure: what did start is ended.
//
// A rank and the first job move through these states:
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
