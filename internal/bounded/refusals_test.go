package bounded

import (
	"fmt"
	"net"
	"testing"
	"time"
)

func TestRefusals(t *testing.T) {
	at := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 1} }
	begin := time.Unix(1_000_000, 0)
	var r Refusals
	for i, tt := range []struct {
		after time.Duration
		from  string
		cause string
		want  bool
	}{
		{0, "10.0.0.1", "no certificate", true},
		{time.Millisecond, "10.0.0.2", "no certificate", false}, // one line a second
		{2 * time.Second, "10.0.0.1", "no certificate", false},  // said
		{2 * time.Second, "10.0.0.1", "another job", true},
		{4 * time.Second, "10.0.0.2", "no certificate", true},
		{61 * time.Second, "10.0.0.1", "another job", false},
		{63 * time.Second, "10.0.0.1", "another job", true},
	} {
		if got := r.Worth(at(tt.from), tt.cause, begin.Add(tt.after)); got != tt.want {
			t.Errorf("%d: %v from %s: %s: %v", i, tt.after, tt.from, tt.cause, got)
		}
	}
	for i := range 5 * maxRefusals {
		r.Worth(at(fmt.Sprintf("10.%d.%d.1", i>>8, i&255)), "x", begin.Add(time.Duration(i+100)*2*time.Second))
	}
	if len(r.seen) > maxRefusals {
		t.Errorf("%d addresses are remembered", len(r.seen))
	}
}
