package pattern

import "testing"

func TestOf(t *testing.T) {
	p := Of(`^rank (\d+)`)
	first := p()
	if p() != first {
		t.Error("it is compiled again")
	}
	if m := p().FindStringSubmatch("rank 7 on w1"); len(m) != 2 || m[1] != "7" {
		t.Errorf("%q", m)
	}
	none := Of(`(`)
	defer func() {
		if recover() == nil {
			t.Error("a text that is no pattern is one")
		}
	}()
	none()
}
