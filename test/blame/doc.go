// Package blame makes real failures and real hangs, and asks whom mpiup names: a rank that is named did it, and it is named nearly
// always. It also runs jobs that look idle and are not, which --on-stall abort may not end.
//
//	scenarios (scenarios_test.go) × tries ──try──▶ mpiup run over two hosts ──judge──▶ outcomes: a line each ──page──▶ docs/blame.md
//	habits    (habits_test.go)    ×
//
// A try is a job of four ranks on hosts that are network namespaces with an agent each, beside other tries on the same agents. The rank
// at fault is another one each time. CI runs a sample. All: make blame, which goes on where it was stopped.
//
// It has no code but tests.
package blame
