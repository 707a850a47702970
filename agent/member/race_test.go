//go:build race

package member

const raceDetector = true
