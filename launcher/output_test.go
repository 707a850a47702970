package launcher

import "testing"

// Chunks of one byte come back before an agent has as many underway as it lets be, whatever the window.
func TestCreditsOfShortLines(t *testing.T) {
	for window, chunks := range map[int]int{1: 64, 4 << 10: 64, 64 << 10: 256, 1 << 20: 4096, 64 << 20: 4096} {
		underway := 0
		c := credits{send: func(_, n int) { underway -= n }}
		c.grow(1, window)
		for range 3 * chunks {
			if underway++; underway > chunks/2 {
				t.Fatalf("window %d: %d chunks are underway", window, underway)
			}
			c.written(0, 1)
		}
	}
}
