// Package agent is one host's part of every job that uses the host. It listens, proves who it
// is, and knows its peers by gossip. For launchers it starts and stops processes, serves their PMI and carries their
// output. This package wires its rooms, starts them, and ends them in order.
//
//	launcher ──Attach──▶ calls, service ──▶ session ──▶ ranks ──▶ reap, stdio
//	                     (roles, gRPC)         │          │
//	mpiup ps, doctor ──▶ looks, survey         └──────────┴─▶ exchange ──▶ pmi, pmi/pmix
//
// An agent ends its sessions first, which tell their launchers over the port; then HTTP, gossip and the port; and last
// the supervisor of processes.
//
// Concurrency: New only builds. Run blocks until everything it and its sessions started has
// ended. All other methods may be called by several goroutines while it does.
//
// The embedded agent is the same Agent inside the launcher's process: no listener, no
// identity, no gossip; Attach is called on one end of a wire.Pipe.
package agent
