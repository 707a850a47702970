package pmix

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// reach is who may look a pair up, nearest first.
type reach int

const (
	reachProc   reach = iota // PMIX_RANGE_PROC_LOCAL
	reachHost                // PMIX_RANGE_LOCAL
	reachJob                 // PMIX_RANGE_NAMESPACE
	reachCustom              // PMIX_RANGE_CUSTOM: those that the publisher lists
	reachRun                 // session, global, and what is unknown
	reaches
)

// Ranges of data and events (pmix_data_range_t).
const (
	rangeResourceManager = 1
	rangeLocal           = 2
	rangeNamespace       = 3
	rangeSession         = 4
	rangeCustom          = 6
	rangeProcLocal       = 7
)

func reachOf(infos []bfrops.Info) reach {
	v, _ := attribute(infos, "pmix.range")
	switch n, _ := v.Number(); n {
	case rangeLocal:
		return reachHost
	case rangeNamespace:
		return reachJob
	case rangeCustom:
		return reachCustom
	case rangeProcLocal:
		return reachProc
	}
	return reachRun
}

// process is who publishes and asks.
type process struct {
	id, job int
	bfrops.Proc
}

func (c *conn) process() process { return process{c.id(), c.ns.Number, c.ns.proc(c.rank)} }

// publication is what is stored of a pair: groups in bfrops.Canonical.
type publication struct {
	data    bfrops.PData
	persist uint64
	custom  []bfrops.Proc // who may see it, for reachCustom
}

func (p publication) pack() ([]byte, error) {
	w := bfrops.NewWriter(bfrops.Canonical(), false, nil)
	w.Group(bfrops.PDataType, p.data)
	w.Group(bfrops.Persist, p.persist)
	bfrops.PutCounted(w, bfrops.ProcType, p.custom)
	return w.Bytes()
}

func unpackPublication(b []byte) (p publication, err error) {
	r := bfrops.NewReader(bfrops.Canonical(), false, b)
	p.data = bfrops.One[bfrops.PData](r, bfrops.PDataType)
	p.persist = bfrops.One[uint64](r, bfrops.Persist)
	p.custom = bfrops.Counted[bfrops.Proc](r, bfrops.ProcType)
	return p, r.Err()
}

// names is where ranks of this host publish. Pairs for the run are in the engine's names, which
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
	return names{run: run, host: kvs.NewNames(kvs.Limits{Value: 64 << 10}), mine: map[int]map[place]uint64{}}
}

// at is the store and the service name of a key, apart from those of PMI ranks.
func (n *names) at(where reach, who process, key string) (kvs.Names, place) {
	service := ""
	switch where {
	case reachProc:
		service = fmt.Sprintf("pmix/proc/%d/%s", who.id, key)
	case reachHost:
		service = "pmix/host/" + key
	case reachJob:
		service = fmt.Sprintf("pmix/job/%d/%s", who.job, key)
	case reachCustom:
		service = "pmix/custom/" + key
	default:
		service = "pmix/run/" + key
	}
	p := place{where, service}
	return n.store(p), p
}

func (n *names) store(p place) kvs.Names {
	if p.reach == reachProc || p.reach == reachHost {
		return n.host
	}
	return n.run
}

func (n *names) publish(ctx context.Context, where reach, who process, pub publication) error {
	entry, err := pub.pack()
	if err != nil {
		return err
	}
	store, p := n.at(where, who, pub.data.Key)
	if err := store.Publish(ctx, p.service, entry); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mine[who.id] == nil {
		n.mine[who.id] = map[place]uint64{}
	}
	if pub.persist != persistFirstRead { // who reads it first may be anywhere
		n.mine[who.id][p] = pub.persist
	}
	return nil
}

// lookup finds what the rank may see, nearest first. Of those who read a pair that is for its
// first reader only, the one that takes it out has it.
func (n *names) lookup(ctx context.Context, who process, key string) (found bfrops.PData, size int, err error) {
	for where := range reaches {
		store, p := n.at(where, who, key)
		entry, err := store.Lookup(ctx, p.service)
		if errors.Is(err, kvs.ErrNotFound) {
			continue
		}
		if err != nil {
			return found, 0, err
		}
		pub, err := unpackPublication(entry)
		if err != nil {
			return found, 0, fmt.Errorf("published key %.64q: %w", key, err)
		}
		if where == reachCustom && !slices.ContainsFunc(pub.custom, who.is) {
			continue
		}
		if pub.persist == persistFirstRead {
			if err := store.Unpublish(ctx, p.service); errors.Is(err, kvs.ErrNotFound) {
				continue
			} else if err != nil {
				return found, 0, err
			}
		}
		return pub.data, len(entry), nil
	}
	return found, 0, kvs.ErrNotFound
}

// until calls look whenever something was published that may be what keys stand for, until it says
// that all is there.
func (n *names) until(ctx context.Context, who process, keys []string, look func() (all bool, err error)) error {
	services := map[kvs.Names][]string{}
	for where := range reaches {
		for _, key := range keys {
			store, p := n.at(where, who, key)
			services[store] = append(services[store], p.service)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	var watchers sync.WaitGroup
	defer watchers.Wait()
	defer cancel()
	wake, broken := make(chan struct{}, 1), make(chan error, len(services))
	for store, list := range services {
		watchers.Go(func() {
			var since uint64
			var err error
			for {
				if since, err = store.Watch(ctx, list, since); err != nil {
					broken <- err
					return
				}
				select {
				case wake <- struct{}{}:
				default: // look has not begun yet
				}
			}
		})
	}
	for {
		select {
		case <-wake:
			if all, err := look(); all || err != nil {
				return err
			}
		case err := <-broken:
			return err
		}
	}
}

// is says whether a process of a list means who.
func (who process) is(p bfrops.Proc) bool {
	return p.Namespace == who.Namespace && (p.Rank == who.Rank || p.Rank == bfrops.RankWildcard)
}

func (n *names) unpublish(ctx context.Context, who process, key string) error {
	result := kvs.ErrNotFound
	for where := range reaches {
		_, p := n.at(where, who, key)
		err := n.take(ctx, who.id, p)
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
