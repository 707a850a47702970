package logs

import (
	"testing"
	"time"
)

// However a time is written, it is that time; without a zone it is taken for UTC.
func TestWhen(t *testing.T) {
	want := time.Date(2024, 1, 2, 3, 4, 5, 600e6, time.UTC)
	for _, text := range []string{
		"2024-01-02T03:04:05.600Z", "2024-01-02T05:04:05.6+02:00", "2024-01-02 03:04:05,600", "2024/01/02 03:04:05.600000", "2024-01-02T05:04:05.6+0200",
		"2024-01-02T03:04:05.6",
	} {
		if got, ok := when(text); !ok || !got.Equal(want) {
			t.Errorf("%s is %s", text, got)
		}
	}
	if got, ok := when("2024-01-02"); ok {
		t.Errorf("a day is %s", got)
	}
}
