// Package watch reads how long a rank waited in MPI for the others. A small library of C (preload/), which the agent puts before a rank's
// own MPI where the run asks for it, sums the time of each call in a page of memory. The agent made the file of that page, and reads it.
//
//	rank: MPI_Allreduce ──▶ libmpiup-watch.so ──▶ page (12 KiB, mapped) ◀── Page.Read: Sample ──▶ Feed: points for the launcher
//
// In a collective in which all wait for all, the rank that others wait for is the one that waits least. A point says how long a rank had
// waited when its n-th such collective over MPI_COMM_WORLD was over. Ranks count them alike, so that points of one number compare without
// clocks that agree.
//
// Calls of NCCL return at once: they are counted only, in bins of time, of which a Cadence finds how long a step takes.
//
// The page is hostile input. Its owner may write anything at any time: a rank can say of itself that it waited less or more than it did,
// never more than the time since its start, and never of another rank.
//
// Concurrency: a Page, a Feed and a Cadence belong to one goroutine.
package watch
