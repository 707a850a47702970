// Package look sees what ranks do, where they wait and whether they come on. Frames push what it finds, and calls pull the same.
//
//	proctree.Snapshot ──▶ At: what leaders and all that descends from them use ──▶ Watcher: samples ──Judge──▶ Works, Busy, Idle
//	barriers of the engine ──▶ Barriers: which have been open for long
//	PIDs ──▶ Take: stacks, by a tool or by the kernel                 a crash ──▶ Core: the innermost frames
//	NCCL's own service ──▶ AskRAS: the lines that name ranks       torch's dumps ──▶ Recorder: who called which collective
//
// Nothing here needs a privilege: what the kernel does not show stays empty (Kernel.Syscall is for who may trace the
// process, Usage.IO and Kernel.Wchan for who runs as its user). The package does not know whose a process is: its caller names the leaders.
//
// Concurrency: a Watcher and a Barriers belong to one goroutine each. The functions keep nothing between two calls, may be called by several
// goroutines, and block until all that they started has ended. What ranks, tools and NCCL write is a stranger's text, and bounded.
package look
