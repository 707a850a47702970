package cost

import (
	"strings"
	"testing"
)

// recorder is a test whose failure is what is tested.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.failed = true }

func TestAtMost(t *testing.T) {
	input := strings.Repeat("x", 64<<10)
	var out string
	for _, tt := range []struct {
		name   string
		copies int
		fails  bool
	}{
		{"a copy", 1, false},
		{"a copy for every 4 KiB", 16, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &recorder{TB: t}
			AtMost(r, Bound{Fixed: 4 << 10, PerByte: 2}, len(input), func() {
				for range tt.copies {
					out = strings.Clone(input)
				}
			})
			if r.failed != tt.fails {
				t.Errorf("failed: %v", r.failed)
			}
			r = &recorder{TB: t}
			over := Watch(r, Bound{Fixed: 4 << 10, PerByte: 2}, len(input))
			for range tt.copies {
				out = strings.Clone(input)
			}
			over()
			if r.failed != tt.fails {
				t.Errorf("watched: failed: %v", r.failed)
			}
		})
	}
	_ = out
}
