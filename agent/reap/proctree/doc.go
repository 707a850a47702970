// Package proctree says who in /proc descends from whom, and so to which session a process belongs.
//
//	/proc/PID/stat ──Snapshot──▶ []Stat ──New──▶ Tree ──Owner, Lineage──▶ session
//	what a supervisor knows ──Known──────────────┘
//	[]Stat ──Aim──▶ Targets: held by pidfds, signalled, waited for
//
// The first of these that knows says to which session a process belongs:
//
//	the table of children, its process session or group, MPIUP_SESSION in its environment,
//	its Mark (a limit that the kernel hands on), an earlier look, its parent, a parent that an earlier look saw
//
// To be an orphan says nothing.
//
// What is known comes in as values, and nothing is kept between two looks. A Tree and Targets belong to one goroutine;
// a Proc has no state.
//
// It starts and reaps nothing, and decides nothing about whom to end.
package proctree
