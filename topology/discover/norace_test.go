//go:build !race

package discover_test

const race = false
