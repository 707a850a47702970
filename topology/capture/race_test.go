//go:build race

package capture_test

const race = true
