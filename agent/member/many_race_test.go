//go:build race

package member

// many is less here: the race detector ends a program with more than 8128 goroutines, and 64
// members have 64 x 63 connections' ends while they meet, with up to two goroutines each.
const many = 24
