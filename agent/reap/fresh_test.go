package reap

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// Who asks while somebody looks gets a look that has not begun yet, and shares it with all who ask meanwhile.
func TestALookBeginsAfterTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			shared freshLooks[int32]
			looks  atomic.Int32
			begun  = make(chan struct{})
			goOn   = make(chan struct{})
			all    sync.WaitGroup
		)
		look := func() int32 {
			n := looks.Add(1)
			if n == 1 {
				close(begun)
				<-goOn
			}
			return n
		}
		all.Go(func() {
			if n := shared.do(look); n != 1 {
				t.Errorf("the first who asks sees look %d", n)
			}
		})
		<-begun
		for range 10 {
			all.Go(func() {
				if n := shared.do(look); n != 2 {
					t.Errorf("who asks during the first look sees look %d", n)
				}
			})
		}
		synctest.Wait()
		if n := looks.Load(); n != 1 {
			t.Errorf("%d looks at once", n)
		}
		close(goOn)
		all.Wait()
		if n := shared.do(look); n != 3 {
			t.Errorf("who asks after all looks sees look %d", n)
		}
	})
}
