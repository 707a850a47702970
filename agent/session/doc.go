// Package session is a launcher's use of an agent: its link, its lease, its right to start, its jobs.
//
//	Agent ──Attach──▶ Table ──▶ session ──▶ ranks.Job, one for each Launch
//	                  admit,     link, lease,     │
//	                  fencing    stop, end        ▼
//	                                └────▶ exchange: what its ranks do with those of other hosts
//
// A session is one launcher process's. It outlives its streams: when one breaks the launcher resumes over another. It ends
// by the launcher's Bye, by its lease, by a newer incarnation of the same launcher, or with the agent.
//
// Its states, by the table in states.go:
//
//	opened   │ launch ─▶ launched │ stop ─▶ stopping │ end ─▶ closing
//	launched │ launch ─▶ launched │ lose ─▶ held │ stop ─▶ stopping │ end ─▶ closing
//	held     │ take ─▶ launched │ end ─▶ closing │ stop ─▶ stopping
//	stopping │ stop ─▶ stopping │ end ─▶ closing
//	closing  │ stop ─▶ closing │ end ─▶ closing │ gone ─▶ closed
//
// Every process of a run has an id, the base of its job plus its rank there. Frames, and whatever the session and its
// engine do, name ids; a job, its space and its PMI server name ranks of their job.
//
// Concurrency: New only builds. Methods of Table may be called by several goroutines; Attach blocks as long as its stream
// carries. A session's frames are handled in order on the goroutine that reads its stream; whatever may take time
// (starting, stopping) has a goroutine of its own that the session waits for. Wait returns when no session is left.
//
// It accepts no connection and knows no gRPC: who calls is said by the context that the caller gives.
package session
