// Package agent is one host's part of every job that uses the host: it listens, proves who it
// is, starts and stops processes on behalf of launchers, serves their PMI, carries their
// output, and knows its peers by gossip.
//
//	launcher ──Attach──▶ server ──▶ session ──▶ ranks.Job ──▶ ranks.Process, ...
//	                     (TLS,       (link,      (one job's      (reap + stdio
//	                      roles)      lease,      ranks here)      + pmi)
//	                                  fencing,
//	                                  jobs)  ───▶ ranks.Job: a job that a rank spawned
//
// A session is one launcher process's use of this agent. It outlives its streams: when one
// breaks the launcher resumes over another. It ends by the launcher's Bye, by its lease, by a
// newer incarnation of the same launcher, or with the agent:
//
//	opened ──Launch──▶ launched ──Stop──▶ stopping ──Bye | lost | fenced | ending──▶ closed
//	                    │    ▲
//	                    └────┘ Launch: another job
//
// Every process of a run has an id, the base of its job plus its rank there. Frames, and whatever
// the session and its engine do, name ids; a job, its space and its PMI server name ranks of their job.
//
// Concurrency: New only builds. Run blocks until everything it and its sessions started has
// ended. A session's frames are handled in order on the goroutine that reads its stream;
// whatever may take time (starting, stopping) has a goroutine of its own that the session
// waits for.
//
// The embedded agent is the same Agent inside the launcher's process: no listener, no
// identity, no gossip; Attach is called on one end of a wire.Pipe.
package agent
