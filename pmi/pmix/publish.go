package pmix

import (
	"context"
	"errors"
	"strings"

	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

const errDuplicate status = -53

// publish makes pairs known to those in range; the request's own attributes begin with "pmix.".
func (c *conn) publish(ctx context.Context, r *bfrops.Reader) (*bfrops.Writer, error) {
	bfrops.One[uint64](r, bfrops.Uint32) // uid: all ranks of a job have one
	infos := r.Infos()
	if r.Err() != nil {
		return nil, r.Err()
	}
	reach := reachOf(infos)
	persist := uint64(persistApp)
	if v, ok := attribute(infos, "pmix.persist"); ok {
		persist, _ = v.Data.(uint64)
	}
	custom := procsOf(infos, "pmix.evrange")
	ctx, cancel := within(ctx, infos)
	defer cancel()
	for _, i := range infos {
		if strings.HasPrefix(i.Key, "pmix.") {
			continue
		}
		pub := publication{bfrops.PData{Proc: c.ns.proc(c.rank), Key: i.Key, Value: i.Value}, persist, custom}
		if err := c.s.names.publish(ctx, reach, c.process(), pub); err != nil {
			return nil, published(err)
		}
	}
	return nil, success
}

// published turns the answers of a store of names into statuses.
func published(err error) error {
	switch {
	case errors.Is(err, kvs.ErrExists):
		return errDuplicate
	case errors.Is(err, kvs.ErrNotFound):
		return errNotFound
	}
	return err
}

// lookup answers with the pairs that are there, or with pmix.wait when all are.
func (c *conn) lookup(ctx context.Context, r *bfrops.Reader) (*bfrops.Writer, error) {
	bfrops.One[uint64](r, bfrops.Uint32)
	keys, infos := readKeys(r)
	if r.Err() != nil {
		return nil, r.Err()
	}
	_, wait := attribute(infos, "pmix.wait")
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
			p, size, err := c.s.names.lookup(ctx, c.process(), key)
			if err == nil {
				found[key] = p
				held += int64(size)
				if c.found.Add(int64(size)) > maxHeld {
					return false, errOutOfResource
				}
			} else if !errors.Is(err, kvs.ErrNotFound) {
				return false, err
			}
		}
		return len(found) == distinct(keys), nil
	}
	var err error
	if wait {
		err = c.s.names.until(ctx, c.process(), keys, look)
	} else {
		_, err = look()
	}
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, errNotFound
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
	w.Status(int(success))
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
func (c *conn) unpublish(ctx context.Context, r *bfrops.Reader) (*bfrops.Writer, error) {
	bfrops.One[uint64](r, bfrops.Uint32)
	keys, infos := readKeys(r)
	if r.Err() != nil {
		return nil, r.Err()
	}
	ctx, cancel := within(ctx, infos)
	defer cancel()
	if len(keys) == 0 {
		return nil, published(c.s.names.unpublishAll(ctx, c.id(), func(uint64) bool { return true }))
	}
	for _, key := range keys {
		if err := c.s.names.unpublish(ctx, c.process(), key); err != nil {
			return nil, published(err)
		}
	}
	return nil, success
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
