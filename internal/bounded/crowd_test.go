package bounded

import (
	"net/netip"
	"testing"
)

func TestGreediestGoesFirst(t *testing.T) {
	greedy, launcher, other := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.3")
	var h Crowd[*int]
	named := map[*int]string{}
	add := func(name string, from netip.Addr) string {
		c := new(int)
		named[c] = name
		return named[h.Add(c, from, 4)]
	}
	for i, tt := range []struct {
		name  string
		from  netip.Addr
		evict string
	}{
		{"launcher", launcher, ""}, {"g1", greedy, ""}, {"g2", greedy, ""}, {"g3", greedy, ""},
		{"g4", greedy, "g1"}, {"other", other, "g2"}, {"g5", greedy, "g3"},
		{"launcher again", launcher, "g4"},
	} {
		if got := add(tt.name, tt.from); got != tt.evict {
			t.Errorf("%d: %s evicts %q, not %q", i, tt.name, got, tt.evict)
		}
	}
	for c := range named {
		h.Remove(c)
	}
	if len(h.conns) > 0 {
		t.Error("some are left")
	}
}
