//go:build !race

package reap

const raceEnabled = false
