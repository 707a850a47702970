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

// Times may be written as Slurm has them, where it is clear what they mean.
func TestSlurmsTimes(t *testing.T) {
	for text, want := range map[string]time.Duration{"00:01:00": time.Minute, "1:00:00": time.Hour, "1-12:00:00": 36 * time.Hour, "90:00:05": 90*time.Hour + 5*time.Second} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%s is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"1:00", "-1:00:00", "1-12", "1:2:3:4", ":00:10", "1-:10:10", "99999:00:00"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%s is %v", text, got)
		}
	}
}
