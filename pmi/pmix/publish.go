package pmix

import (
	"context"
	"errors"
	"strings"

	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
	"github.com/mpiup/mpiup/pmi/pmix/names"
)

// publish makes pairs known to those in range; the request's own attributes begin with "pmix.".
func publish(ctx context.Context, c *conn, r *bfrops.Reader) (*bfrops.Writer, error) {
	bfrops.One[uint64](r, bfrops.Uint32) // uid: all ranks of a job have one
	infos := r.Infos()
	if r.Err() != nil {
		return nil, r.Err()
	}
	reach := names.ReachOf(infos)
	persist := uint64(names.UntilJob)
	if v, ok := bfrops.Attribute(infos, "pmix.persist"); ok {
		persist, _ = v.Data.(uint64)
	}
	listed := bfrops.Procs(infos, "pmix.evrange")
	ctx, cancel := within(ctx, infos)
	defer cancel()
	for _, i := range infos {
		if strings.HasPrefix(i.Key, "pmix.") {
			continue
		}
		pub := names.Publication{Data: bfrops.PData{Proc: c.proc(), Key: i.Key, Value: i.Value}, Persist: persist, Listed: listed}
		if err := c.host.names.Publish(ctx, reach, c.me(), pub); err != nil {
			return nil, published(err)
		}
	}
	return nil, bfrops.Success
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

// lookup answers with the pairs that are there, or with pmix.wait when all are.
func lookup(ctx context.Context, c *conn, r *bfrops.Reader) (*bfrops.Writer, error) {
	bfrops.One[uint64](r, bfrops.Uint32)
	keys, infos := readKeys(r)
	if r.Err() != nil {
		return nil, r.Err()
	}
	_, wait := bfrops.Attribute(infos, "pmix.wait")
	ctx, cancel := within(ctx, infos)
	defer cancel()
	found := map[string]bfrops.PData{}
	held := int64(0)
	defer func() { c.found.Add(-held) }()
	look := func() (all bool, err error) {
		for _, key := range keys {
			if _, ok := found[key]; ok {
				continue
			}
			p, size, err := c.host.names.Lookup(ctx, c.me(), key)
			if err == nil {
				found[key] = p
				held += int64(size)
				if c.found.Add(int64(size)) > maxHeld {
					return false, bfrops.ErrOutOfResource
				}
			} else if !errors.Is(err, kvs.ErrNotFound) {
				return false, err
			}
		}
		return len(found) == distinct(keys), nil
	}
	var err error
	if wait {
		err = c.host.names.Until(ctx, c.me(), keys, look)
	} else {
		_, err = look()
	}
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, bfrops.ErrNotFound
	}
	if err := c.takeTurn(ctx); err != nil {
		return nil, err
	}
	var pairs []bfrops.PData
	for _, key := range keys {
		if p, ok := found[key]; ok { // once, however often it is asked for
			pairs = append(pairs, p)
			delete(found, key)
		}
	}
	w := c.writer()
	w.Status(int(bfrops.Success))
	bfrops.PutCounted(w, bfrops.PDataType, pairs)
	return w, nil
}

func distinct(keys []string) int {
	set := map[string]bool{}
	for _, k := range keys {
		set[k] = true
	}
	return len(set)
}

// unpublish takes pairs back; without keys all that the rank has published.
func unpublish(ctx context.Context, c *conn, r *bfrops.Reader) (*bfrops.Writer, error) {
	bfrops.One[uint64](r, bfrops.Uint32)
	keys, infos := readKeys(r)
	if r.Err() != nil {
		return nil, r.Err()
	}
	ctx, cancel := within(ctx, infos)
	defer cancel()
	if len(keys) == 0 {
		return nil, published(c.host.names.UnpublishAll(ctx, c.me()))
	}
	for _, key := range keys {
		if err := c.host.names.Unpublish(ctx, c.me(), key); err != nil {
			return nil, published(err)
		}
	}
	return nil, bfrops.Success
}

func readKeys(r *bfrops.Reader) (keys []string, infos []bfrops.Info) {
	for range r.Count() {
		if r.Err() != nil {
			return nil, nil
		}
		keys = append(keys, bfrops.One[string](r, bfrops.String))
	}
	return keys, r.Infos()
}
