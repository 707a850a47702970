//go:build !amd64

package look

// ownCalls are calls that only this architecture has.
var ownCalls map[int]string
