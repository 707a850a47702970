package modex

import (
	"bytes"
	"reflect"
	"slices"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// Section is what a rank has committed for its host or for the others: groups of one KVAL each,
// in bfrops.Canonical and NON_DESC.
type Section []byte

const (
	// sectionKey is the engine's key of a rank's remote section.
	sectionKey = "pmix.remote"
	// maxSection is the engine's bound of a value (kvs.DefaultLimits).
	maxSection = 4 << 20
)

// pairs decodes the section.
func (s Section) pairs() ([]bfrops.KVal, error) {
	r := bfrops.NewReader(bfrops.Canonical(), false, s)
	return ReadPairs(r)
}

// ReadPairs reads groups of one KVAL to the end.
func ReadPairs(r *bfrops.Reader) (pairs []bfrops.KVal, err error) {
	for r.More() {
		pairs = append(pairs, bfrops.One[bfrops.KVal](r, bfrops.KValType))
	}
	return pairs, r.Err()
}

// with is the section after a commit of pairs, each of which replaces what had its key.
func (s Section) with(pairs []bfrops.KVal) (Section, error) {
	old, err := s.pairs()
	if err != nil {
		return nil, err
	}
	place := map[string]int{}
	var order [][]byte
	for _, p := range append(old, pairs...) {
		w := bfrops.NewWriter(bfrops.Canonical(), false, nil)
		w.KVal(p.Key, p.Value.Type, p.Value.Data)
		packed, err := w.Bytes()
		if err != nil {
			return nil, err
		}
		id := identity(p)
		i, had := place[id]
		if !had {
			i = len(order)
			place[id] = i
			order = append(order, nil)
		}
		order[i] = packed
	}
	return bytes.Join(order, nil), nil
}

// identity is what tells values of a section apart: the key, and the qualifiers if there are any.
func identity(p bfrops.KVal) string {
	a, ok := p.Value.Data.(bfrops.Array)
	if p.Key != bfrops.QualifiedKey || !ok || len(a.Data) == 0 {
		return p.Key
	}
	first, _ := a.Data[0].(bfrops.Info)
	w := bfrops.NewWriter(bfrops.Canonical(), false, nil)
	w.KVal(bfrops.QualifiedKey, bfrops.DataArray, bfrops.Array{Type: a.Type, Data: a.Data[1:]})
	b, _ := w.Bytes()
	return first.Key + "\x00" + string(b)
}

// holds says whether key ("": anything) is in the section, with these qualifiers or, if there are
// none, with whatever qualifiers.
func (s Section) holds(key string, qualifiers []bfrops.Info) bool {
	if key == "" {
		return len(s) > 0
	}
	r := bfrops.NewReader(bfrops.Canonical(), false, s)
	for r.More() {
		p := bfrops.One[bfrops.KVal](r, bfrops.KValType)
		if p.Key == key && len(qualifiers) == 0 {
			return true
		}
		if a, ok := p.Value.Data.(bfrops.Array); ok && p.Key == bfrops.QualifiedKey && len(a.Data) > 0 {
			if first, _ := a.Data[0].(bfrops.Info); first.Key == key && contains(a.Data[1:], qualifiers) {
				return true
			}
		}
	}
	return false
}

// contains says whether a value has all qualifiers that are asked for.
func contains(have []any, qualifiers []bfrops.Info) bool {
	for _, q := range qualifiers {
		if !slices.ContainsFunc(have, func(h any) bool {
			i, ok := h.(bfrops.Info)
			return ok && i.Key == q.Key && reflect.DeepEqual(i.Value, q.Value)
		}) {
			return false
		}
	}
	return true
}

// AppendTo writes the section for a client, as it is if the client speaks our dialect. Values of
// types that the client's dialect lacks are left out, since they would spoil all others.
func (s Section) AppendTo(w *bfrops.Writer, desc bool) error {
	if w.Dialect() == bfrops.Canonical() && !desc {
		w.Raw(s)
		return nil
	}
	pairs, err := s.pairs()
	if err != nil {
		return err
	}
	for _, p := range pairs {
		one := w.Like()
		one.KVal(p.Key, p.Value.Type, p.Value.Data)
		if packed, err := one.Bytes(); err == nil {
			w.Raw(packed)
		}
	}
	return nil
}
