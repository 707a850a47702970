package launcher

import (
	"testing"

	"github.com/mpiup/mpiup/internal/job"
)

// Chunks of one byte come back before an agent has as many underway as it lets be, whatever the window.
func TestCreditsOfShortLines(t *testing.T) {
	for _, window := range []int{1, 64, 4 << 10, 64 << 10, 1 << 20, 64 << 20} {
		underway, chunks := 0, min(window, job.OutputChunks(window))
		c := credits{send: func(_, n int) { underway -= n }}
		c.grow(1, window)
		for range 3 * chunks {
			if underway++; underway > max(chunks/2, 1) {
				t.Fatalf("window %d: %d chunks are underway", window, underway)
			}
			c.written(0, 1)
		}
	}
}
