// Package slow finds who makes all others wait. PURE: no clock, no I/O, no goroutine.
//
// In a collective in which all wait for all, the last to come waits least. Points of one number say how long each rank had waited when its
// n-th collective was over (agent/watch). Between two numbers that all ranks have lies a block:
//
//	wait of rank i = d_i          lost for c = median over the others of (d_i − d_c), where d_c is the least
//
// Durations suffice: no clocks of hosts are compared. A name needs a share of the time (Enough), blocks that agree (Held), and a gap
// between those who wait least and the rest. Where the least waiting rank changes from block to block, the work is uneven, and no host is
// to blame. Who waits in calls between two ranks is told by nobody, but that time says which of several late ranks was itself waiting.
package slow
