// Package chaos breaks what lies between a launcher and its agents while a job runs, and
// checks what issue and documentation promise: a broken, stalled or silent connection, a
// stopped or starved process costs a job nothing; a dead launcher or agent ends it by name, in
// time, and leaves nothing behind.
//
//	launcher host ──▶ forwarder (delay, stall, reset, FIN) ──▶ worker host: agent, ranks
//	     └──────────────── cable (cut, one way or both) ────────────┘
//
// Each scenario has worker hosts of its own on one cluster, so that they run side by side.
// Ranks count (package counter): a line lost or doubled, or a rank started again, shows.
//
// It has no code but tests. The soak (make soak) draws faults from a seed for minutes.
package chaos
