//go:build race

package reap

const raceEnabled = true
