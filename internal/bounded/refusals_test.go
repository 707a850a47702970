package bounded

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/cost"
)

func address(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 1} }

// Each address and cause is told of once a minute, whatever others come at the same time.
func TestRefusals(t *testing.T) {
	begin := time.Unix(1_000_000, 0)
	var r Refusals
	for i, tt := range []struct {
		after time.Duration
		from  string
		cause string
		want  bool
	}{
		{0, "10.0.0.1", "no certificate", true},
		{0, "10.0.0.1", "another job", true}, // however soon after another one
		{time.Millisecond, "10.0.0.2", "no certificate", true},
		{2 * time.Second, "10.0.0.1", "no certificate", false}, // said
		{3 * time.Second, "10.0.0.1", "another job", false},    // said, although another cause came meanwhile
		{59 * time.Second, "10.0.0.1", "another job", false},
		{60 * time.Second, "10.0.0.1", "another job", true},
		{61 * time.Second, "10.0.0.1", "another job", false},
		{63 * time.Second, "10.0.0.2", "no certificate", true},
		{63 * time.Second, "::ffff:10.0.0.2", "no certificate", false}, // the same
	} {
		if got, _ := r.Worth(address(tt.from), tt.cause, begin.Add(tt.after)); got != tt.want {
			t.Errorf("%d: %v from %s: %s: %v", i, tt.after, tt.from, tt.cause, got)
		}
	}
}

// Who makes up causes or has many addresses costs a bounded number of lines a minute and a bounded memory, hides no other's for longer than that,
// and what is left out is told.
func TestRefusalsAreBounded(t *testing.T) {
	begin := time.Unix(1_000_000, 0)
	var r Refusals
	lines := 0
	for i := range 100 * mostCauses {
		if worth, _ := r.Worth(address("10.0.0.1"), fmt.Sprint("cause ", i), begin); worth {
			lines++
		}
	}
	if lines != mostCauses {
		t.Errorf("%d lines of one address", lines)
	}
	if worth, left := r.Worth(address("10.0.0.2"), "no certificate", begin); !worth || left != 99*mostCauses {
		t.Errorf("another's is told of: %t, and that %d are left out", worth, left)
	}
	for i := range 5 * maxRefusals {
		r.Worth(address(fmt.Sprintf("10.%d.%d.1", 1+i>>8, i&255)), "x", begin)
	}
	if len(r.seen) > maxRefusals || len(r.by) > maxRefusals {
		t.Errorf("%d causes of %d addresses are remembered", len(r.seen), len(r.by))
	}
	if worth, left := r.Worth(address("10.0.0.3"), "no certificate", begin.Add(time.Minute)); !worth || left == 0 || len(r.seen) != 1 || len(r.by) != 1 {
		t.Errorf("a minute later another is told of: %t, %d were left out, %d are remembered", worth, left, len(r.seen))
	}
}

// FuzzRefusals: no order of addresses and causes has it remember more than its bound, or tell of one twice within a minute.
func FuzzRefusals(f *testing.F) {
	f.Add([]byte("abcabc\x00\xff"))
	f.Fuzz(func(t *testing.T, text []byte) {
		defer cost.Watch(t, cost.Parser, len(text))()
		var r Refusals
		now := time.Unix(1_000_000, 0)
		told := map[string]time.Time{}
		for i := 0; i+2 < len(text); i += 3 {
			from, cause := fmt.Sprintf("10.0.0.%d", text[i]), fmt.Sprint(text[i+1])
			now = now.Add(time.Duration(text[i+2]) * time.Second / 4)
			worth, _ := r.Worth(address(from), cause, now)
			if at, ok := told[from+cause]; worth && ok && now.Sub(at) < refusalRepeat {
				t.Errorf("%s, %s is told of again after %v", from, cause, now.Sub(at))
			}
			if worth {
				told[from+cause] = now
			}
			if len(r.seen) > maxRefusals || r.by[address(from).(*net.TCPAddr).AddrPort().Addr().Unmap()] > mostCauses {
				t.Fatalf("%d are remembered", len(r.seen))
			}
		}
	})
}
