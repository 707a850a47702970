package pmix

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// Persistence of a published pair (pmix_persistence_t). What outlives its rank lives as long as
// the run: indefinitely and a session are no longer than that here.
const (
	persistFirstRead = 1
	persistProc      = 2
	persistApp       = 3
)

// reach is who may look a pair up.
type reach int

const (
	reachRun  reach = iota // namespace, session, global, and what is unknown
	reachHost              // PMIX_RANGE_LOCAL
	reachProc              // PMIX_RANGE_PROC_LOCAL
)

func reachOf(infos []bfrops.Info) reach {
	v, _ := attribute(infos, "pmix.range")
	switch n, _ := v.Number(); n {
	case 2:
		return reachHost
	case 7:
		return reachProc
	}
	return reachRun
}

// names is where ranks of this host publish. Pairs for the run are in Config.Names, which
// all hosts share; the others stay here.
type names struct {
	run, host kvs.Names

	mu   sync.Mutex
	mine map[int]map[place]uint64 // guarded by mu; what each rank (by id) has published, and its persistence
}

type place struct {
	reach   reach
	service string
}

func newNames(run kvs.Names) names {
	if run == nil {
		run = kvs.NewNames(kvs.Limits{})
	}
	return names{run: run, host: kvs.NewNames(kvs.Limits{Value: 64 << 10}), mine: map[int]map[place]uint64{}}
}

// at is the store and the service name of a key, apart from those of PMI ranks.
func (n *names) at(where reach, id int, key string) (kvs.Names, place) {
	switch where {
	case reachHost:
		return n.host, place{where, "pmix/" + key}
	case reachProc:
		return n.host, place{where, fmt.Sprintf("pmix/%d/%s", id, key)}
	}
	return n.run, place{where, "pmix/" + key}
}

func (n *names) store(p place) kvs.Names {
	if p.reach == reachRun {
		return n.run
	}
	return n.host
}

func (n *names) publish(ctx context.Context, where reach, id int, key string, entry []byte, persist uint64) error {
	store, p := n.at(where, id, key)
	if err := store.Publish(ctx, p.service, entry); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mine[id] == nil {
		n.mine[id] = map[place]uint64{}
	}
	if persist != persistFirstRead { // who reads it first may be anywhere
		n.mine[id][p] = persist
	}
	return nil
}

// lookup finds what the rank may see, nearest first. Of those who read a pair that is for its
// first reader only, the one that takes it out has it.
func (n *names) lookup(ctx context.Context, id int, key string) (bfrops.PData, error) {
	for _, where := range []reach{reachProc, reachHost, reachRun} {
		store, p := n.at(where, id, key)
		entry, err := store.Lookup(ctx, p.service)
		if errors.Is(err, kvs.ErrNotFound) {
			continue
		}
		if err != nil {
			return bfrops.PData{}, err
		}
		r := bfrops.NewReader(bfrops.Canonical(), false, entry)
		data := bfrops.One[bfrops.PData](r, bfrops.PDataType)
		persist := bfrops.One[uint64](r, bfrops.Persist)
		if r.Err() != nil {
			return bfrops.PData{}, fmt.Errorf("published key %.64q: %w", key, r.Err())
		}
		if persist == persistFirstRead {
			if err := store.Unpublish(ctx, p.service); errors.Is(err, kvs.ErrNotFound) {
				continue
			} else if err != nil {
				return bfrops.PData{}, err
			}
		}
		return data, nil
	}
	return bfrops.PData{}, kvs.ErrNotFound
}

func (n *names) unpublish(ctx context.Context, id int, key string) error {
	result := kvs.ErrNotFound
	for _, where := range []reach{reachProc, reachHost, reachRun} {
		_, p := n.at(where, id, key)
		err := n.take(ctx, id, p)
		if err != nil && !errors.Is(err, kvs.ErrNotFound) {
			return err
		}
		if err == nil {
			result = nil
		}
	}
	return result
}

func (n *names) take(ctx context.Context, id int, p place) error {
	n.mu.Lock()
	delete(n.mine[id], p)
	n.mu.Unlock()
	return n.store(p).Unpublish(ctx, p.service)
}

// unpublishAll takes back what a rank has published and which says so.
func (n *names) unpublishAll(ctx context.Context, id int, which func(persist uint64) bool) error {
	n.mu.Lock()
	var all []place
	for p, persist := range n.mine[id] {
		if which(persist) {
			all = append(all, p)
		}
	}
	n.mu.Unlock()
	for _, p := range all {
		if err := n.take(ctx, id, p); err != nil && !errors.Is(err, kvs.ErrNotFound) {
			return err
		}
	}
	return nil
}

// left takes back what a rank that has no connection any more published for as long as it lives.
func (n *names) left(ctx context.Context, id int) error {
	return n.unpublishAll(ctx, id, func(persist uint64) bool { return persist == persistProc })
}
