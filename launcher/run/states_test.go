package run

import "testing"

func TestRankTableWalk(t *testing.T) {
	reached := map[rankState]bool{rankCreated: true}
	for range rankTable {
		for _, r := range rankTable {
			if reached[r.from] {
				reached[r.to] = true
			}
		}
	}
	for s := rankCreated; s <= rankLost; s++ {
		if !reached[s] {
			t.Errorf("state %v cannot be reached", s)
		}
	}
	seen := map[[2]uint8]bool{}
	for _, r := range rankTable {
		if r.from.over() {
			t.Errorf("%v is over, yet event %d leads on to %v", r.from, r.event, r.to)
		}
		k := [2]uint8{uint8(r.event), uint8(r.from)}
		if seen[k] {
			t.Errorf("two rows for event %d in state %v", r.event, r.from)
		}
		seen[k] = true
		if to, ok := r.from.next(r.event); !ok || to != r.to {
			t.Errorf("%v.next(%d) = %v, %v; want %v", r.from, r.event, to, ok, r.to)
		}
	}
	for s := rankCreated; s <= rankLost; s++ {
		for e := rankStarted; e <= rankHostLost; e++ {
			if to, ok := s.next(e); ok != seen[[2]uint8{uint8(e), uint8(s)}] || (!ok && to != s) {
				t.Errorf("%v.next(%d) = %v, %v is not in the table", s, e, to, ok)
			}
		}
	}
}

func TestJobTableWalk(t *testing.T) {
	reached := map[jobState]bool{jobLaunching: true}
	ends := map[jobState]bool{}
	for range jobTable {
		for _, r := range jobTable {
			if reached[r.from] {
				reached[r.to] = true
			}
			if r.event == jobEnded {
				ends[r.from] = true
			}
			if to, ok := r.from.next(r.event); !ok || to != r.to {
				t.Errorf("%v.next(%d) = %v, %v; want %v", r.from, r.event, to, ok, r.to)
			}
		}
	}
	for s := jobLaunching; s <= jobDone; s++ {
		if !reached[s] {
			t.Errorf("state %v cannot be reached", s)
		}
		if s != jobDone && !ends[s] {
			t.Errorf("a job in state %v cannot end", s)
		}
	}
	if _, ok := jobDone.next(jobFailed); ok {
		t.Error("a job that is done can still fail")
	}
}
