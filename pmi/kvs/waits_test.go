package kvs

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/mpiup/mpiup/internal/idset"
)

// Open fences are told of with who is in them and who is not, the first first.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := New(Run{Upstream: elsewhere{}}).Add(Job{KVSName: "k", Size: 4, Local: []int{0, 1, 3}})
		if err != nil {
			t.Fatal(err)
		}
		enter := func(ctx context.Context, rank int, set idset.Set, tag string) {
			go func() { _ = e.Fence(ctx, rank, set, tag, false) }()
			synctest.Wait()
		}
		is := func(want ...Wait) {
			t.Helper()
			if d := cmp.Diff(want, e.e.Waits(2)); d != "" {
				t.Error(d)
			}
		}
		is()
		ctx, cancel := context.WithCancel(t.Context())
		enter(ctx, 3, idset.Set{}, "")
		is(Wait{1, "0-3", idset.Of(3), idset.Of(0, 1)})
		enter(t.Context(), 0, idset.Of(0, 1), "7")
		enter(t.Context(), 1, idset.Set{}, "")
		is(Wait{1, "0-3", idset.Of(1, 3), idset.Of(0)}, Wait{2, "0-1#7", idset.Of(0), idset.Of(1)})
		cancel()
		synctest.Wait()
		is(Wait{1, "0-3", idset.Of(1), idset.Of(0, 3)}, Wait{2, "0-1#7", idset.Of(0), idset.Of(1)})
		enter(t.Context(), 1, idset.Of(0, 1), "7")
		enter(t.Context(), 0, idset.Of(0), "x") // over at once
		enter(t.Context(), 0, idset.Of(0, 1), "")
		enter(t.Context(), 0, idset.Of(0, 3), "")
		is(Wait{1, "0-3", idset.Of(1), idset.Of(0, 3)}, Wait{4, "0-1", idset.Of(0), idset.Of(1)})
		e.Close(nil)
		synctest.Wait()
		is()
	})
}

// elsewhere is a host of rank 2, which never comes.
type elsewhere struct{}

func (elsewhere) Exchange(ctx context.Context, _ string, _ uint64, _ bool, _ []byte) ([][]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (elsewhere) Fetch(context.Context, Question) ([]byte, bool, error) { return nil, false, nil }
