package pmix

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
	"github.com/mpiup/mpiup/pmi/pmix/modex"
)

// publish makes pairs known to those in range; the request's own attributes begin with "pmix.". A pair that cannot be published keeps
// no other from it, as in PRRTE's ds_publish.c; the answer is the first failure.
func publish(ctx context.Context, c *conn, r *bfrops.Reader) (*bfrops.Writer, error) {
	skipUID(r)
	infos := r.Infos()
	if r.Err() != nil {
		return nil, r.Err()
	}
	reach, persist, listed := modex.ReachOf(infos), modex.PersistOf(infos), bfrops.Procs(infos, "pmix.evrange")
	ctx, cancel := within(ctx, infos)
	defer cancel()
	var first error
	for _, i := range infos {
		if strings.HasPrefix(i.Key, "pmix.") {
			continue
		}
		pub := modex.Publication{Data: bfrops.PData{Proc: c.proc(), Key: i.Key, Value: i.Value}, Persist: persist, Listed: listed}
		first = cmp.Or(first, c.host.names.Publish(ctx, reach, c.me(), pub))
	}
	return nil, published(first)
}

// published turns the answers of a store of names into statuses.
func published(err error) error {
	switch {
	case errors.Is(err, kvs.ErrExists):
		return bfrops.ErrDuplicateKey
	case errors.Is(err, kvs.ErrNotFound):
		return bfrops.ErrNotFound
	}
	return err
}

// lookup answers with the pairs that are there; with pmix.wait once there are enough.
func lookup(ctx context.Context, c *conn, r *bfrops.Reader) (*bfrops.Writer, error) {
	skipUID(r)
	keys, infos := readKeys(r)
	if r.Err() != nil {
		return nil, r.Err()
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	need := awaited(infos, len(keys))
	limited, cancel := within(ctx, infos)
	defer cancel()
	var found []modex.Found
	held := int64(0)
	defer func() { c.found.Add(-held) }()
	look := func() (enough bool, err error) {
		for {
			found = found[:0]
			c.found.Add(-held)
			held = 0
			for _, key := range keys {
				f, err := c.host.names.Lookup(limited, c.me(), key)
				if errors.Is(err, kvs.ErrNotFound) {
					continue
				}
				if err != nil {
					return false, err
				}
				found = append(found, f)
				held += int64(f.Size)
				if c.found.Add(int64(f.Size)) > maxHeld {
					return false, bfrops.ErrOutOfResource
				}
			}
			if len(found) < max(need, 1) {
				return false, nil
			}
			if err := c.host.names.Take(ctx, found); !errors.Is(err, kvs.ErrNotFound) {
				return err == nil, err
			}
		}
	}
	wait := look
	if need > 0 {
		wait = func() (bool, error) { return true, c.host.names.Until(limited, c.me(), keys, look) }
	}
	if there, err := wait(); err != nil {
		return nil, err
	} else if !there {
		return nil, bfrops.ErrNotFound
	}
	if err := c.takeTurn(ctx); err != nil {
		return nil, err
	}
	pairs := make([]bfrops.PData, len(found))
	for i, f := range found {
		pairs[i] = f.Data
	}
	w := c.success()
	bfrops.PutCounted(w, bfrops.PDataType, pairs)
	return w, nil
}

// awaited is how many of all pairs a request waits for; 0: it does not wait. pmix.wait is their number, 0 for all (pmix_common.h), and
// has a bool of openpmix's own plookup.
func awaited(infos []bfrops.Info, all int) int {
	v, _ := bfrops.Attribute(infos, "pmix.wait")
	n, counts := v.Number()
	switch {
	case counts && n > 0:
		return int(min(n, int64(all)))
	case counts || bfrops.IsTrue(infos, "pmix.wait"):
		return all
	}
	return 0
}

// unpublish takes pairs back; without keys all that the rank has published. A key that is not there keeps no other; the answer is the
// first failure.
func unpublish(ctx context.Context, c *conn, r *bfrops.Reader) (*bfrops.Writer, error) {
	skipUID(r)
	keys, infos := readKeys(r)
	if r.Err() != nil {
		return nil, r.Err()
	}
	ctx, cancel := within(ctx, infos)
	defer cancel()
	var first error
	if len(keys) == 0 {
		first = c.host.names.UnpublishAll(ctx, c.me())
	}
	for _, key := range keys {
		first = cmp.Or(first, c.host.names.Unpublish(ctx, c.me(), key))
	}
	return nil, published(first)
}

// skipUID passes over the user's id, since all ranks of a job have one.
func skipUID(r *bfrops.Reader) { bfrops.One[uint64](r, bfrops.Uint32) }

func readKeys(r *bfrops.Reader) (keys []string, infos []bfrops.Info) {
	for range r.Count() {
		if r.Err() != nil {
			return nil, nil
		}
		keys = append(keys, bfrops.One[string](r, bfrops.String))
	}
	return keys, r.Infos()
}
