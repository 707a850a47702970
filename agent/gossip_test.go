package agent

import (
	"net/netip"
	"testing"
)

// Of many addresses the default port is tried at first, and others later, even where nobody is known yet.
func TestSeedsAt(t *testing.T) {
	many, own := map[netip.Addr]bool{}, netip.MustParseAddrPort("10.0.0.1:9997")
	for ip := own.Addr(); len(many) < 9; ip = ip.Next() {
		many[ip] = true
	}
	ports := []int{9998, 9997, 9996}
	at := func(known map[netip.Addr]bool, again bool) (first, others int) {
		for _, s := range seedsAt(many, ports, own, known, again) {
			switch {
			case s == own:
				t.Error("it would try itself")
			case s.Addr() == own.Addr():
			case s.Port() == 9998:
				first++
			default:
				others++
			}
		}
		return first, others
	}
	if first, others := at(nil, false); first != 8 || others != 0 {
		t.Errorf("at first %d, %d", first, others)
	}
	sum := 0
	for range 20 {
		first, others := at(nil, true)
		if sum += others; first != 8 || others > 8 {
			t.Errorf("later %d, %d", first, others)
		}
	}
	if sum == 0 {
		t.Error("other ports are never tried")
	}
	if first, others := at(many, true); first+others != 0 {
		t.Errorf("of those known %d, %d", first, others)
	}
}
