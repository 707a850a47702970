// Package slow makes ranks slow on purpose and asks whom mpiup run --watch-ranks names, and why; and it runs programs of which no rank is
// slow, where it may name nobody.
//
//	ways (ways_test.go) × programs × 20, 50, 100 % ──try──▶ a line of docs/data/slow.tsv ──▶ the table in docs/slow.md
//	habits (alike_test.go) × programs ──run──▶ counts in docs/data/false-names.tsv
//
// Both go on where they were stopped. Hosts are network namespaces with an agent each; the slow rank is the last, alone on the second host.
// CI runs each habit once.
//
// It has no code but tests.
package slow
