package kvs

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/mpiup/mpiup/internal/job"
)

// store is the data of one job as one host sees it. Not safe for concurrent use.
type store struct {
	base   int // id of rank 0
	ranks  []rankData
	latest map[string]stamp  // which owner AnyOwner means, per key
	clock  uint64            // merges so far
	preset map[string][]byte // AnyOwner's, as long as no rank has put the key
	local  []int
	limits Limits
	puts   uint64            // of local ranks so far
	known  map[string]uint64 // set of ranks → the last put that all its hosts have
}

// rankData is what one rank has put.
type rankData struct {
	values map[string]value
	bytes  int
	fresh  []freshKey // what not all hosts have, as it was put; local ranks only
	local  bool
}

type value struct {
	data []byte
	put  uint64 // its number, of the puts of its host; of another host's, the last one before it came in a fence
}

// freshKey is one put. It counts no more once the key was put again.
type freshKey struct {
	key string
	put uint64
}

type stamp struct {
	owner int
	clock uint64
}

type ownedKey struct {
	owner int
	key   string
}

func newStore(base, size int, local []int, limits Limits) store {
	s := store{base: base, ranks: make([]rankData, size), latest: map[string]stamp{}, known: map[string]uint64{}, local: local, limits: limits}
	for _, r := range local {
		s.ranks[r].local = true
	}
	return s
}

// give takes what the job has from its start (Job.Preput), bounded as what one rank may put.
func (s *store) give(pairs []job.Pair) error {
	if len(pairs) > s.limits.RankKeys {
		return &LimitError{Owner: AnyOwner, Key: pairs[0].Key, What: "preset", Unit: "keys", Got: len(pairs), Max: s.limits.RankKeys}
	}
	total := 0
	for _, p := range pairs {
		if err := s.limits.check(AnyOwner, p.Key, p.Value); err != nil {
			return err
		}
		if total += len(p.Key) + len(p.Value); total > s.limits.RankData {
			return &LimitError{Owner: AnyOwner, Key: p.Key, What: "preset", Unit: "bytes", Got: total, Max: s.limits.RankData}
		}
		if s.preset == nil {
			s.preset = map[string][]byte{}
		}
		s.preset[p.Key] = p.Value
	}
	return nil
}

func (s *store) isLocal(rank int) bool {
	return rank >= 0 && rank < len(s.ranks) && s.ranks[rank].local
}

// put stores a local rank's value.
func (s *store) put(owner int, key string, data []byte) error {
	if !s.isLocal(owner) {
		return fmt.Errorf("key %.64q was put for rank %d, which is not on this host", key, owner)
	}
	if err := s.set(owner, key, data, s.puts+1); err != nil {
		return err
	}
	s.puts++
	rd := &s.ranks[owner]
	rd.fresh = append(rd.fresh, freshKey{key, s.puts})
	if len(rd.fresh) > 2*len(rd.values)+64 {
		rd.fresh = slices.DeleteFunc(rd.fresh, func(k freshKey) bool { return rd.values[k.key].put != k.put })
	}
	s.latest[key] = stamp{owner, s.clock}
	return nil
}

// set replaces one value within the limits. data is copied; put is its number, 0: the one before.
func (s *store) set(owner int, key string, data []byte, put uint64) error {
	if err := s.limits.check(owner, key, data); err != nil {
		return err
	}
	rd := &s.ranks[owner]
	old, had := rd.values[key]
	grow := len(data) - len(old.data)
	if !had {
		if len(rd.values) >= s.limits.RankKeys {
			return &LimitError{Owner: owner, Key: key, What: "total", Unit: "keys", Got: len(rd.values) + 1, Max: s.limits.RankKeys}
		}
		grow += len(key)
	}
	if rd.bytes+grow > s.limits.RankData {
		return &LimitError{Owner: owner, Key: key, What: "total", Unit: "bytes", Got: rd.bytes + grow, Max: s.limits.RankData}
	}
	if rd.values == nil {
		rd.values = map[string]value{}
	}
	rd.bytes += grow
	rd.values[key] = value{bytes.Clone(data), max(put, old.put)}
	return nil
}

func (s *store) get(owner int, key string) ([]byte, bool) {
	if owner == AnyOwner {
		st, ok := s.latest[key]
		if !ok {
			v, ok := s.preset[key]
			return v, ok
		}
		owner = st.owner
	}
	if owner < 0 || owner >= len(s.ranks) {
		return nil, false
	}
	v, ok := s.ranks[owner].values[key]
	return v.data, ok
}

// localGet is get of what ranks of this host have put. For AnyOwner any of them serves if
// the latest to be put is another host's; what was preset is every host's own.
func (s *store) localGet(owner int, key string) ([]byte, bool) {
	if owner == AnyOwner {
		if st, ok := s.latest[key]; ok && s.ranks[st.owner].local {
			return s.get(st.owner, key)
		}
		for _, r := range s.local {
			if v, ok := s.ranks[r].values[key]; ok {
				return v.data, true
			}
		}
		return nil, false
	}
	if !s.isLocal(owner) {
		return nil, false
	}
	return s.get(owner, key)
}

// merge takes in what the other hosts contributed. Where several ranks of one fence put the
// same key, AnyOwner means the highest of them, on every host (mine counts as well). What a fence that has ended
// before has brought newer stays.
func (s *store) merge(mine []ownedKey, others [][]byte) error {
	s.clock++
	for _, k := range mine {
		s.stamp(k.owner, k.key)
	}
	for _, data := range others {
		err := forEach(data, func(owner int, key string, v value) error {
			if owner >= len(s.ranks) || s.isLocal(owner) {
				return fmt.Errorf("another host contributed for rank %d, which is not its own", owner)
			}
			if s.ranks[owner].values[key].put <= v.put {
				if err := s.set(owner, key, v.data, v.put); err != nil {
					return err
				}
			}
			s.stamp(owner, key)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *store) stamp(owner int, key string) {
	if cur, ok := s.latest[key]; !ok || cur.clock < s.clock || cur.owner < owner {
		s.latest[key] = stamp{owner, s.clock}
	}
}
