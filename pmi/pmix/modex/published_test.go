package modex

import (
	"errors"
	"testing"

	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// Ranks 0 and 1 of job 0, and rank 0 of job 1.
var (
	first  = Process{0, 0, bfrops.Proc{Namespace: "a", Rank: 0}}
	second = Process{1, 0, bfrops.Proc{Namespace: "a", Rank: 1}}
	other  = Process{2, 1, bfrops.Proc{Namespace: "b", Rank: 0}}
)

func publication(who Process, value string, persist uint64, listed ...bfrops.Proc) Publication {
	return Publication{Data: bfrops.PData{Proc: who.Proc, Key: "k", Value: bfrops.Value{Type: bfrops.String, Data: value}}, Persist: persist, Listed: listed}
}

// sees is the value that who finds on a host, "" for none.
func sees(t *testing.T, n *Names, who Process) string {
	t.Helper()
	f, err := n.Lookup(t.Context(), who, "k")
	if errors.Is(err, kvs.ErrNotFound) {
		return ""
	}
	if err = errors.Join(err, n.Take(t.Context(), []Found{f})); err != nil {
		t.Fatal(err)
	}
	return f.Data.Value.Text()
}

func TestWhoSeesWhat(t *testing.T) {
	type seen struct{ itself, same, other, elsewhere bool } // elsewhere: a rank of job 0 on another host
	for _, tt := range []struct {
		name   string
		reach  Reach
		listed []bfrops.Proc
		want   seen
	}{
		{"process", OfProc, nil, seen{itself: true}},
		{"host", OfHost, nil, seen{true, true, true, false}},
		{"job", OfJob, nil, seen{true, true, false, true}},
		{"run", OfRun, nil, seen{true, true, true, true}},
		{"listed", OfListed, []bfrops.Proc{{Namespace: "b", Rank: bfrops.RankWildcard}}, seen{other: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run := kvs.NewNames(kvs.Limits{})
			here, there := NewNames(run), NewNames(run)
			if err := here.Publish(t.Context(), tt.reach, first, publication(first, "v", UntilJob, tt.listed...)); err != nil {
				t.Fatal(err)
			}
			got := seen{sees(t, here, first) != "", sees(t, here, second) != "", sees(t, here, other) != "", sees(t, there, second) != ""}
			if got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestHowLongPairsStay(t *testing.T) {
	const indefinite = 0
	for _, tt := range []struct {
		name                    string
		persist                 uint64
		read, left, ended, last bool // it is there when it was read, its process left, its job ended; and goes with all the process published
	}{
		{"first read", UntilRead, false, true, true, true},
		{"process", UntilProc, true, false, false, false},
		{"job", UntilJob, true, true, false, false},
		{"run", indefinite, true, true, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for step, want := range map[string]bool{"read": tt.read, "left": tt.left, "ended": tt.ended, "all": tt.last} {
				n := NewNames(kvs.NewNames(kvs.Limits{}))
				err := n.Publish(t.Context(), OfRun, first, publication(first, "v", tt.persist))
				switch step {
				case "read":
					sees(t, n, second)
				case "left":
					err = errors.Join(err, n.Left(t.Context(), first))
				case "ended":
					err = errors.Join(err, n.Ended(t.Context(), first))
				case "all":
					err = errors.Join(err, n.UnpublishAll(t.Context(), first))
				}
				if err != nil {
					t.Fatal(err)
				}
				if got := sees(t, n, second) != ""; got != want {
					t.Errorf("%s: %v, want %v", step, got, want)
				}
			}
		})
	}
}

// A process whose pair another has replaced takes nothing with it.
func TestAnothersPairStays(t *testing.T) {
	run := kvs.NewNames(kvs.Limits{})
	here, there := NewNames(run), NewNames(run)
	if err := here.Publish(t.Context(), OfRun, first, publication(first, "old", UntilProc)); err != nil {
		t.Fatal(err)
	}
	if err := there.Unpublish(t.Context(), other, "k"); err != nil {
		t.Fatal(err)
	}
	if err := there.Publish(t.Context(), OfRun, other, publication(other, "new", UntilProc)); err != nil {
		t.Fatal(err)
	}
	if err := here.Left(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if got := sees(t, here, first); got != "new" {
		t.Errorf("%q is left of another's pair", got)
	}
	if err := there.Left(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if got := sees(t, here, first); got != "" {
		t.Errorf("%q is left", got)
	}
}

// Who cannot have all pairs has none of those that are for their first reader only.
func TestTakeIsOfAll(t *testing.T) {
	n := NewNames(kvs.NewNames(kvs.Limits{}))
	var pairs []Found
	for _, key := range []string{"a", "b"} {
		pub := publication(first, key, UntilRead)
		pub.Data.Key = key
		err := n.Publish(t.Context(), OfRun, first, pub)
		f, err2 := n.Lookup(t.Context(), second, key)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		pairs = append(pairs, f)
	}
	if err := n.Take(t.Context(), pairs[1:]); err != nil {
		t.Fatal(err)
	}
	if err := n.Take(t.Context(), pairs); !errors.Is(err, kvs.ErrNotFound) {
		t.Errorf("of one that is gone: %v", err)
	}
	if f, err := n.Lookup(t.Context(), second, "a"); err != nil || f.Data.Value.Text() != "a" {
		t.Errorf("the other is %q: %v", f.Data.Value.Text(), err)
	}
}
