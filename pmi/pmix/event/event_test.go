package event

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
	"github.com/mpiup/mpiup/test/cost"
)

// What one host's server packs, another's reads, and nothing else.
func FuzzDecode(f *testing.F) {
	for _, e := range []Event{
		{Code: -3000, Source: bfrops.Proc{Namespace: "job", Rank: 1}, Range: 4},
		{Code: -200, Range: 6, Targets: []bfrops.Proc{{Namespace: "job", Rank: bfrops.RankWildcard}},
			Infos: []bfrops.Info{bfrops.NewInfo("pmix.evrange", bfrops.DataArray, bfrops.NewProcs(bfrops.Proc{Namespace: "job", Rank: 2}))}},
	} {
		b, err := Encode(e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		defer cost.Watch(t, cost.Parser, len(b))()
		e, err := Decode(b)
		if err != nil {
			return
		}
		packed, err := Encode(e)
		if err != nil && strings.Contains(err.Error(), "are the most") {
			return // 1e300 is longer as libpmix writes it
		}
		if err != nil {
			t.Fatal(err)
		}
		again, err := Decode(packed)
		if err != nil || fmt.Sprint(again) != fmt.Sprint(e) {
			t.Errorf("%v became %v, %v", e, again, err)
		}
	})
}

func TestSizeIsBounded(t *testing.T) {
	large := bfrops.NewInfo("text", bfrops.String, strings.Repeat("x", 64<<10))
	if _, err := Encode(Event{Infos: []bfrops.Info{large}}); err == nil {
		t.Error("a large one is packed")
	}
	if _, err := Decode(make([]byte, 64<<10+1)); err == nil {
		t.Error("a large one is read")
	}
}

const code = -3000 // of an application

// Who of a host hears what, among ranks 0 to 2 of one job and rank 0 of another: 0 raises it, 1 asked for its code,
// 2 for all, and b for its code.
func TestWhoHears(t *testing.T) {
	a := func(rank uint32) bfrops.Proc { return bfrops.Proc{Namespace: "a", Rank: rank} }
	b := bfrops.Proc{Namespace: "b"}
	yes := func(key string) []bfrops.Info { return []bfrops.Info{bfrops.NewInfo(key, bfrops.Bool, true)} }
	for _, tt := range []struct {
		name string
		e    Event
		want string
	}{
		{"all in the run", Event{Code: code, Range: bfrops.RangeSession}, "a1 a2 b"},
		{"another code", Event{Code: code - 1, Range: bfrops.RangeSession}, "a2"},
		{"of the namespace", Event{Code: code, Range: bfrops.RangeNamespace}, "a1 a2"},
		{"for one", Event{Code: code, Range: bfrops.RangeCustom, Targets: []bfrops.Proc{b}}, "b"},
		{"for a job", Event{Code: code, Range: bfrops.RangeCustom, Targets: []bfrops.Proc{a(bfrops.RankWildcard)}}, "a1 a2"},
		{"not for handlers of all codes", Event{Code: code, Range: bfrops.RangeSession, Infos: yes("pmix.evnondef")}, "a1 b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			board := NewBoard(slog.New(slog.DiscardHandler))
			listeners := map[string]*Listener{"a0": board.Listen(a(0)), "a1": board.Listen(a(1)), "a2": board.Listen(a(2)), "b": board.Listen(b), "gone": board.Listen(a(1))}
			for name, codes := range map[string][]int64{"a0": {code}, "a1": {code}, "a2": nil, "b": {code}, "gone": nil} {
				listeners[name].Register(codes)
			}
			listeners["gone"].Quit()
			tt.e.Source = a(0)
			board.Notify(tt.e, listeners["a0"])
			var heard []string
			for name, l := range listeners {
				if _, ok := l.take(); ok {
					heard = append(heard, name)
				}
			}
			slices.Sort(heard)
			if got := strings.Join(heard, " "); got != tt.want {
				t.Errorf("%q hear it, not %q", got, tt.want)
			}
		})
	}
}

// Who asks late hears what was raised a little before, once; not what is of a process's end, nor what is old.
func TestLateListeners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		board := NewBoard(slog.New(slog.DiscardHandler))
		who := bfrops.Proc{Namespace: "a"}
		board.Notify(Event{Code: code, Range: bfrops.RangeSession}, nil)
		board.Notify(OfProcess(Left, who), nil)
		late := board.Listen(who)
		late.Register(nil)
		late.Register([]int64{code})
		if e, ok := late.Next(t.Context()); !ok || e.Code != code {
			t.Errorf("%+v, %v", e, ok)
		}
		if e, ok := late.take(); ok {
			t.Errorf("%+v as well", e)
		}
		time.Sleep(recentTime) // of the bubble's time
		later := board.Listen(who)
		later.Register(nil)
		if e, ok := later.take(); ok {
			t.Errorf("%+v after %v", e, recentTime)
		}
	})
}

func TestListenersAreBounded(t *testing.T) {
	board := NewBoard(slog.New(slog.DiscardHandler))
	l := board.Listen(bfrops.Proc{Namespace: "a"})
	if st := l.Register(make([]int64, maxCodes+1)); st != bfrops.ErrOutOfResource {
		t.Errorf("%d codes: %v", maxCodes+1, st)
	}
	l.Register(nil)
	for range maxPending + 1 {
		board.Notify(Event{Code: code, Range: bfrops.RangeSession}, nil)
	}
	board.Notify(OfProcess(Left, bfrops.Proc{Namespace: "a", Rank: 1}), nil) // has room of its own
	n := 0
	var last Event
	for e, ok := l.take(); ok; e, ok = l.take() {
		n, last = n+1, e
	}
	if n != maxPending+1 || last.Code != Left {
		t.Errorf("%d events are kept, the last is %+v", n, last)
	}
}
