package look

import (
	"slices"
	"testing"
	"time"
)

func TestWatch(t *testing.T) {
	var w Barriers
	const a, b = 1, 2
	for _, step := range []struct {
		at   time.Duration
		open []uint64
		ages []time.Duration
		news bool
	}{
		{0, nil, nil, false},
		{10 * time.Second, []uint64{a}, []time.Duration{0}, false},
		{69 * time.Second, []uint64{a, b}, []time.Duration{59 * time.Second, 0}, false},
		{70 * time.Second, []uint64{a, b}, []time.Duration{60 * time.Second, time.Second}, true},
		{80 * time.Second, []uint64{a, b}, []time.Duration{70 * time.Second, 11 * time.Second}, false},
		{129 * time.Second, []uint64{b}, []time.Duration{60 * time.Second}, true},
		{130 * time.Second, []uint64{a}, []time.Duration{0}, false},
		{190 * time.Second, []uint64{a}, []time.Duration{60 * time.Second}, true},
	} {
		ages, news := w.Look(step.at, step.open)
		if !slices.Equal(ages, step.ages) || news != step.news {
			t.Errorf("at %v: %v, %v; want %v, %v", step.at, ages, news, step.ages, step.news)
		}
	}
}

func TestDue(t *testing.T) {
	var w Barriers
	var looks []time.Duration
	for at := time.Duration(0); at < time.Minute; at += 100 * time.Millisecond {
		if w.Due(at) {
			looks = append(looks, at)
		}
	}
	if len(looks) != 60 || looks[5] != 5*time.Second {
		t.Errorf("looks at %v", looks)
	}
}
