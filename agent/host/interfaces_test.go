package host

import "testing"

// The kernel's list has loopback, which every host has.
func TestLinks(t *testing.T) {
	all, err := Links()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range all {
		if l.Name == "lo" {
			if !l.Loopback {
				t.Errorf("lo is %+v", l)
			}
			return
		}
	}
	t.Errorf("no lo in %+v", all)
}
