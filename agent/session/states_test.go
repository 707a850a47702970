package session

import (
	"testing"

	"github.com/mpiup/mpiup/test/golden"
)

func TestDrawing(t *testing.T) {
	var table []golden.Move
	for _, tr := range transitions {
		table = append(table, golden.Move{From: tr.from.String(), Event: tr.ev.String(), To: tr.to.String()})
	}
	golden.Drawing(t, "doc.go", "Its states, by the table in states.go:", table)
}

func TestSessionStates(t *testing.T) {
	allowed := map[event]map[state]state{}
	for _, tr := range transitions {
		if allowed[tr.ev] == nil {
			allowed[tr.ev] = map[state]state{}
		}
		if _, twice := allowed[tr.ev][tr.from]; twice {
			t.Errorf("%v from %v stands twice", tr.ev, tr.from)
		}
		allowed[tr.ev][tr.from] = tr.to
	}
	for ev := evLaunch; ev <= evGone; ev++ {
		for from := opened; from <= closed; from++ {
			to, err := from.next(ev)
			want, ok := allowed[ev][from]
			if ok != (err == nil) || (ok && to != want) {
				t.Errorf("%v from %v: %v, %v", ev, from, to, err)
			}
		}
	}
	if _, err := opened.next(evLaunch); err != nil {
		t.Error(err)
	}
	if _, err := launched.next(evLaunch); err != nil {
		t.Errorf("no second job: %v", err)
	}
	if _, err := stopping.next(evLaunch); err == nil {
		t.Error("a session that is stopped takes another job")
	}
	if _, err := closed.next(evEnd); err == nil {
		t.Error("a closed session can end")
	}
}
