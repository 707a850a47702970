package main

import (
	"testing"
	"time"
)

// Where no time is left no fault is tried, and the bench goes on to its end.
func TestFaultsFitIn(t *testing.T) {
	b := &bench{rounds: 7, begun: time.Now(), most: mostMeet + mostRest - time.Second}
	s := &survivor{name: "a launcher"}
	if err := b.survive(t.Context(), nil, "any", []*survivor{s}); err != nil || len(s.back)+s.late > 0 {
		t.Errorf("it is %+v, %v", s, err)
	}
	if b.most += time.Minute; !b.fits(mostMeet + mostRest) {
		t.Error("a fault does not fit in where there is time")
	}
	if b.most = 0; !b.fits(time.Hour) {
		t.Error("a bench without bound ends")
	}
}
