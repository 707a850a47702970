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
// TestChaos is a matrix: each fault of one table (faults_test.go) in each phase of another (phases_test.go) is a cell with
// hosts of its own and a job of MPICH or Open MPI that stands still in the phase. A cell checks the launcher's exit code and
// words in a bound, or that the job goes on unharmed; that nothing of the job is left; and that the agents run another
// job. One cell: -run 'TestChaos/rank_SIGKILL/in_a_fence'. All: make chaos; with MPIUP_CHAOS_SWAP=1 each with the other library.
//
// It has no code but tests. The soak (make soak) draws faults from a seed for minutes.
package chaos
