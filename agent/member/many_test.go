//go:build !race

package member

// many is the size of a large job in these tests.
const many = 64
