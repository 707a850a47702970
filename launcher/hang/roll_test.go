package hang

import (
	"testing"
	"time"
)

func TestRoll(t *testing.T) {
	type host struct {
		framework, loaded, met, elsewhere string
		visited                           bool
	}
	for _, tt := range []struct {
		name           string
		hosts          []host
		ranks, running string
		missing, there string
		alone          bool
	}{
		{name: "nothing was told", ranks: "0-3", running: "0-3"},
		{name: "no framework", hosts: []host{{}, {}}, ranks: "0-3", running: "0-3"},
		{name: "none met", hosts: []host{{framework: "torch", loaded: "0-1"}, {framework: "torch", loaded: "2-3"}}, ranks: "0-3", alone: true},
		{name: "one host has not loaded it", hosts: []host{{framework: "torch", loaded: "0-1"}, {}}, ranks: "0-3"},
		{name: "all met", hosts: []host{{framework: "torch", loaded: "0-1", met: "0-1", visited: true}, {framework: "torch", loaded: "2-3", met: "2-3", visited: true}},
			ranks: "0-3", running: "0-3", there: "0-3"},
		{name: "one is missing", hosts: []host{{met: "0-1", visited: true}, {met: "3", visited: true}}, ranks: "0-3", running: "0-3", missing: "2", there: "0-1,3"},
		{name: "it has ended", hosts: []host{{met: "0-1", visited: true}, {met: "3", visited: true}}, ranks: "0-3", running: "0-1,3", there: "0-1,3"},
		{name: "it is elsewhere", hosts: []host{{met: "0-1"}, {met: "3", elsewhere: "2"}}, ranks: "0-3", running: "0-3", there: "0-1,3"},
		{name: "another program's ranks are not missing", hosts: []host{{met: "0-1"}, {}}, ranks: "0-1", running: "0-3", there: "0-1"},
		{name: "somebody came", hosts: []host{{framework: "torch", loaded: "0-1", visited: true}, {framework: "torch", loaded: "2-3"}}, ranks: "0-3", running: "0-3"},
		{name: "one called MPI_Init", hosts: []host{{framework: "torch", loaded: "0-1", elsewhere: "1"}, {framework: "torch", loaded: "2-3"}}, ranks: "0-3"},
		{name: "a single rank may be alone", hosts: []host{{framework: "torch", loaded: "0"}}, ranks: "0"},
		{name: "two programs", hosts: []host{{framework: "torch", loaded: "0-3"}}, ranks: "2-3", alone: true},
	} {
		var r Roll
		for _, h := range tt.hosts {
			r.Hear(Meeting{h.framework, set(t, h.loaded), set(t, h.met), set(t, h.elsewhere), h.visited})
		}
		missing, there := r.Missing(set(t, tt.ranks), set(t, tt.running))
		if missing.String() != tt.missing || there.String() != tt.there || r.Alone(set(t, tt.ranks)) != tt.alone {
			t.Errorf("%s: missing %q, there %q, alone %v", tt.name, missing, there, r.Alone(set(t, tt.ranks)))
		}
	}
}

func TestAgain(t *testing.T) {
	for n, want := range []time.Duration{30 * time.Second, 2 * time.Minute, 8 * time.Minute, 32 * time.Minute} {
		if at, ok := Again(n); at != want || !ok {
			t.Errorf("%d: %v, %v", n, at, ok)
		}
	}
	if _, ok := Again(MaxTold); ok {
		t.Error("told for ever")
	}
}
