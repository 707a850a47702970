package report

import (
	"strings"
	"testing"
)

func TestTermination(t *testing.T) {
	text := Termination(7, []string{"rank 3 on w1 exited with code 7"}, []string{"first", "both"}, []string{"both", "boom"})
	if want := "rank 3 on w1 exited with code 7\nexit code 7\nits first lines:\nfirst\nboth\nits last lines:\nboom\n"; text != want {
		t.Errorf("%q, want %q", text, want)
	}
	long := Termination(1, []string{strings.Repeat("ä", 4000)}, nil, nil)
	if len(long) > maxTermination || !strings.HasPrefix(long, "ää") || strings.ContainsRune(long, '\ufffd') {
		t.Errorf("%d bytes, cut within a character", len(long))
	}
}
