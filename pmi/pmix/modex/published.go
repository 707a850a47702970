package modex

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// Names is what ranks publish (PMIx_Publish), as a rank of this host sees it. Pairs for the run are in the engine's names, which all hosts
// share; the others stay here.
//
//	(reach, who, key) ──▶ service of a kvs.Names
//	OfProc    pmix/proc/ID/key   this host's       a publisher's own
//	OfHost    pmix/host/key      this host's
//	OfJob     pmix/job/N/key     the run's
//	OfListed  pmix/custom/key    the run's         seen by those that the publisher lists
//	OfRun     pmix/run/key       the run's
//
// A pair goes with its first reader, its process, its job, or the run. A value is groups in bfrops.Canonical: PDATA, PERSIST, PROCs.
// Methods block on the way to whoever keeps the run's names. Left and Ended tell it when processes go.
type Names struct {
	run, host kvs.Names

	mu sync.Mutex
	by map[int]map[place]bool // guarded by mu; where each process (by id) has published and may have a pair still
}

type place struct {
	reach   Reach
	service string
}

// NewNames returns the names of a host in a run that keeps its own in run.
func NewNames(run kvs.Names) *Names {
	limits := kvs.DefaultLimits()
	limits.Value = 64 << 10
	return &Names{run: run, host: kvs.NewNames(limits), by: map[int]map[place]bool{}}
}

// at is the place of a key, apart from those of PMI ranks.
func at(where Reach, who Process, key string) place {
	service := ""
	switch where {
	case OfProc:
		service = fmt.Sprintf("pmix/proc/%d/%s", who.ID, key)
	case OfHost:
		service = "pmix/host/" + key
	case OfJob:
		service = fmt.Sprintf("pmix/job/%d/%s", who.Job, key)
	case OfListed:
		service = "pmix/custom/" + key
	default:
		service = "pmix/run/" + key
	}
	return place{where, service}
}

func (n *Names) store(p place) kvs.Names {
	if p.reach == OfProc || p.reach == OfHost {
		return n.host
	}
	return n.run
}

// Publish makes a pair known to those in reach; kvs.ErrExists.
func (n *Names) Publish(ctx context.Context, where Reach, who Process, pub Publication) error {
	entry, err := pub.pack()
	if err != nil {
		return err
	}
	p := at(where, who, pub.Data.Key)
	if err := n.store(p).Publish(ctx, p.service, entry); err != nil {
		return err
	}
	if pub.Persist == UntilRead { // who reads it first may be anywhere
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.by[who.ID] == nil {
		n.by[who.ID] = map[place]bool{}
	}
	n.by[who.ID][p] = true
	return nil
}

// Found is a pair that a process may see.
type Found struct {
	Publication
	Size int // bytes of it as it is kept
	at   place
}

// Lookup finds what the rank may see, nearest first; kvs.ErrNotFound.
func (n *Names) Lookup(ctx context.Context, who Process, key string) (found Found, err error) {
	for where := range reaches {
		found.at = at(where, who, key)
		found.Publication, found.Size, err = n.lookup(ctx, found.at)
		if errors.Is(err, kvs.ErrNotFound) ||
			err == nil && where == OfListed && !slices.ContainsFunc(found.Listed, func(p bfrops.Proc) bool { return p.Means(who.Proc) }) {
			continue
		}
		return found, err
	}
	return found, kvs.ErrNotFound
}

// Take makes pairs their reader's: those for their first reader only are there no more. Where another was first it returns
// kvs.ErrNotFound, and publishes again what it has taken.
func (n *Names) Take(ctx context.Context, pairs []Found) error {
	for i, f := range pairs {
		if f.Persist != UntilRead {
			continue
		}
		err := n.store(f.at).Unpublish(ctx, f.at.service)
		if err == nil {
			continue
		}
		for _, f := range pairs[:i] {
			if f.Persist == UntilRead {
				if entry, bad := f.pack(); bad == nil {
					_ = n.store(f.at).Publish(ctx, f.at.service, entry) // where its publisher has another by now, that one stays
				}
			}
		}
		return err
	}
	return nil
}

// lookup finds what is published at a place, and its size; kvs.ErrNotFound.
func (n *Names) lookup(ctx context.Context, p place) (pub Publication, size int, err error) {
	entry, err := n.store(p).Lookup(ctx, p.service)
	if err != nil {
		return pub, 0, err
	}
	if pub, err = unpackPublication(entry); err != nil {
		return pub, 0, fmt.Errorf("published key %.64q: %w", p.service, err)
	}
	return pub, len(entry), nil
}

// Until calls look whenever something was published that may be what keys stand for, until it says
// that all is there.
func (n *Names) Until(ctx context.Context, who Process, keys []string, look func() (all bool, err error)) error {
	services := map[kvs.Names][]string{}
	for where := range reaches {
		for _, key := range keys {
			p := at(where, who, key)
			services[n.store(p)] = append(services[n.store(p)], p.service)
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

// Unpublish takes a pair back, whatever its reach; kvs.ErrNotFound.
func (n *Names) Unpublish(ctx context.Context, who Process, key string) error {
	result := kvs.ErrNotFound
	for where := range reaches {
		err := n.take(ctx, who.ID, at(where, who, key))
		if err != nil && !errors.Is(err, kvs.ErrNotFound) {
			return err
		}
		if err == nil {
			result = nil
		}
	}
	return result
}

func (n *Names) take(ctx context.Context, id int, p place) error {
	n.forget(id, p)
	return n.store(p).Unpublish(ctx, p.service)
}

func (n *Names) forget(id int, p place) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.by[id], p)
}

// UnpublishAll takes back all that a process has published.
func (n *Names) UnpublishAll(ctx context.Context, who Process) error {
	return n.takeBack(ctx, who, func(uint64) bool { return true })
}

// Left takes back what a process that has no connection any more published for as long as it lives.
func (n *Names) Left(ctx context.Context, who Process) error {
	return n.takeBack(ctx, who, func(persist uint64) bool { return persist == UntilProc })
}

// Ended takes back what a process of a job that is over has published for as long as the job lives.
func (n *Names) Ended(ctx context.Context, who Process) error {
	err := n.takeBack(ctx, who, func(persist uint64) bool { return persist == UntilProc || persist == UntilJob })
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.by, who.ID)
	return nil
}

// takeBack takes back what a process has published and which says so. Whose a pair is, and for how long, says the pair
// alone: what another has taken back may be somebody else's by now.
func (n *Names) takeBack(ctx context.Context, who Process, which func(persist uint64) bool) error {
	n.mu.Lock()
	places := slices.Collect(maps.Keys(n.by[who.ID]))
	n.mu.Unlock()
	for _, p := range places {
		pub, _, err := n.lookup(ctx, p)
		switch {
		case errors.Is(err, kvs.ErrNotFound) || err == nil && pub.Data.Proc != who.Proc:
			n.forget(who.ID, p)
			continue
		case err != nil:
			return err
		case !which(pub.Persist):
			continue
		}
		if err := n.take(ctx, who.ID, p); err != nil && !errors.Is(err, kvs.ErrNotFound) {
			return err
		}
	}
	return nil
}
