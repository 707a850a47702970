package cli

import (
	"testing"
	"time"
)

func TestMoments(t *testing.T) {
	now := time.Date(2026, 11, 23, 4, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{"": {}, "10m": now.Add(-10 * time.Minute), "90": now.Add(-90 * time.Second),
		"2026-11-23T03:00:00+01:00": now.Add(-2 * time.Hour)} {
		if got, err := ParseMoment(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
}
