package streams

import (
	"slices"
	"testing"
)

func TestPace(t *testing.T) {
	p := NewPace([]int{3, 7}, 10)
	room := func(want int, left bool) {
		t.Helper()
		if n, l := p.Room(100); l != left || l && n != want {
			t.Errorf("room for %d, left %v; want %d, %v", n, l, want, left)
		}
	}
	room(10, true)
	if n, _ := p.Room(4); n != 4 {
		t.Errorf("more than was asked for: %d", n)
	}
	to := p.Spend(8)
	slices.Sort(to)
	if !slices.Equal(to, []int{3, 7}) {
		t.Errorf("to %v", to)
	}
	room(2, true)
	p.Grant(3, 8)
	room(2, true) // 7 is slow
	<-p.Changed()
	p.Gone(7)
	<-p.Changed()
	p.Grant(3, 1000) // never beyond the window
	p.Grant(9, 1)    // nobody
	room(10, true)
	p.AllGone()
	room(0, false)
}
