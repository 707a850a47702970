package modex

import (
	"testing"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

func pair(key string, n uint64) bfrops.KVal {
	return bfrops.KVal{Key: key, Value: bfrops.Value{Type: bfrops.Uint32, Data: n}}
}

func with(key string, n, qualifier uint64) bfrops.KVal {
	q := bfrops.NewInfo("qualifier", bfrops.Uint32, qualifier)
	q.Flags = bfrops.InfoQualifier
	return bfrops.Qualified(bfrops.NewInfo(key, bfrops.Uint32, n), q)
}

func TestSections(t *testing.T) {
	var s Section
	for _, commit := range [][]bfrops.KVal{
		{pair("a", 1), pair("b", 2)}, {pair("a", 3)}, {}, {with("c", 4, 1), with("c", 5, 2)}, {with("c", 6, 1)},
	} {
		var err error
		if s, err = s.with(commit); err != nil {
			t.Fatal(err)
		}
	}
	for key, want := range map[string]bool{"": true, "a": true, "b": true, "c": true, "d": false, "qualifier": false} {
		if s.holds(key, nil) != want {
			t.Errorf("%q: %v", key, !want)
		}
	}
	want, _ := Section(nil).with([]bfrops.KVal{pair("a", 3), pair("b", 2), with("c", 6, 1), with("c", 5, 2)})
	if string(s) != string(want) {
		t.Errorf("got %x, want %x", s, want)
	}
	if Section(nil).holds("", nil) {
		t.Error("nothing holds something")
	}
}

// A client of an old dialect gets what it can read.
func TestSectionForAnOldDialect(t *testing.T) {
	s, err := Section(nil).with([]bfrops.KVal{
		pair("a", 1), {Key: "new", Value: bfrops.Value{Type: bfrops.CompressedBytes, Data: []byte{1}}}, pair("b", 2)})
	if err != nil {
		t.Fatal(err)
	}
	d, err := bfrops.Find("v3")
	if err != nil {
		t.Fatal(err)
	}
	w := bfrops.NewWriter(d, true, nil)
	if err := s.AppendTo(w, true); err != nil {
		t.Fatal(err)
	}
	b, err := w.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	pairs, err := ReadPairs(bfrops.NewReader(d, true, b))
	if err != nil || len(pairs) != 2 || pairs[0].Key != "a" || pairs[1].Key != "b" {
		t.Errorf("%v, %v", pairs, err)
	}
}
