package kvs

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// Open fences are told of with who is in them and who is not, the first first.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := New(Config{KVSName: "k", Size: 4, Local: []int{0, 1, 3}, Upstream: elsewhere{}})
		if err != nil {
			t.Fatal(err)
		}
		enter := func(ctx context.Context, rank int, set []int, tag string) {
			go func() { _ = e.FenceTagged(ctx, rank, set, tag, false) }()
			synctest.Wait()
		}
		is := func(want ...Wait) {
			t.Helper()
			if d := cmp.Diff(want, e.Waits(2)); d != "" {
				t.Error(d)
			}
		}
		is()
		ctx, cancel := context.WithCancel(t.Context())
		enter(ctx, 3, nil, "")
		is(Wait{1, "0-3", []int{3}, []int{0, 1}})
		enter(t.Context(), 0, []int{0, 1}, "7")
		enter(t.Context(), 1, nil, "")
		is(Wait{1, "0-3", []int{1, 3}, []int{0}}, Wait{2, "0-1#7", []int{0}, []int{1}})
		cancel()
		synctest.Wait()
		is(Wait{1, "0-3", []int{1}, []int{0, 3}}, Wait{2, "0-1#7", []int{0}, []int{1}})
		enter(t.Context(), 1, []int{0, 1}, "7")
		enter(t.Context(), 0, []int{0}, "x") // over at once
		enter(t.Context(), 0, []int{0, 1}, "")
		enter(t.Context(), 0, []int{0, 3}, "")
		is(Wait{1, "0-3", []int{1}, []int{0, 3}}, Wait{4, "0-1", []int{0}, []int{1}})
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

func (elsewhere) Fetch(context.Context, int, string) ([]byte, bool, error) { return nil, false, nil }
