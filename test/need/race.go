//go:build race

package need

const raced = true
