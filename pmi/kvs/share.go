package kvs

import (
	"cmp"
	"fmt"
	"slices"
)

// share is what a host has for one fence: its contribution, and what that is.
type share struct {
	data    []byte
	keys    []ownedKey
	upTo    uint64 // the host's puts
	refused error  // data says so to the other hosts
}

// share collects what local processes put and the hosts of their set (its name without a tag) are not known to have. So what
// was put once goes once to a set, whatever the number of its fences; but fences that are open at one time each carry it, since
// nobody knows which of them ends first. What they may carry in all is bounded by what was put here, as
// Limits says; sending is what is under way already.
func (s *store) share(ids []int, set string, sending int) share {
	sh := share{upTo: s.puts}
	since := max(s.known[set], s.known[toAll])
	size, held := 0, 0
	for _, id := range ids {
		r := id - s.base
		rd := &s.ranks[r]
		first, _ := slices.BinarySearchFunc(rd.fresh, since+1, func(k freshKey, put uint64) int { return cmp.Compare(k.put, put) })
		for _, k := range rd.fresh[first:] {
			if v := rd.values[k.key]; v.put == k.put {
				size += entryMax + len(k.key) + len(v.data)
				sh.keys = append(sh.keys, ownedKey{r, k.key})
			}
		}
	}
	if size == 0 {
		return sh
	}
	for _, r := range s.local {
		held += s.ranks[r].bytes
	}
	if most := min(max(held+s.limits.Again, size), s.limits.Sending); sending+size > most {
		sh.keys = nil
		sh.refused = &FenceLimitError{fmt.Sprintf("what ranks of one host put makes %d bytes in barriers that have not "+
			"ended; %d are possible; let ranks put less, or be in fewer at once", sending+size, most)}
		sh.data = appendRefusal(nil, sh.refused.Error())
		return sh
	}
	sh.data = appendPuts(appendHeader(make([]byte, 0, size+headerLen+putsMax)), sh.keys[0].owner, sh.upTo)
	for _, ok := range sh.keys {
		sh.data = appendEntry(sh.data, ok.owner, ok.key, s.ranks[ok.owner].values[ok.key].data)
	}
	return sh
}

// toAll is the name of the set of all ranks in store.known.
const toAll = ""

// arrived notes that all hosts of a set have a share.
func (s *store) arrived(set string, sh share) {
	if sh.upTo <= max(s.known[set], s.known[toAll]) {
		return
	}
	s.known[set] = sh.upTo
	if set != toAll {
		return
	}
	for name, put := range s.known {
		if name != toAll && put <= sh.upTo {
			delete(s.known, name)
		}
	}
	for _, r := range s.local {
		rd := &s.ranks[r]
		n, _ := slices.BinarySearchFunc(rd.fresh, sh.upTo+1, func(k freshKey, put uint64) int { return cmp.Compare(k.put, put) })
		if rd.fresh = rd.fresh[n:]; len(rd.fresh) == 0 {
			rd.fresh = nil
		}
	}
}
