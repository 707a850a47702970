package pmix_test

import (
	"testing"
	"testing/synctest"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
	"github.com/mpiup/mpiup/test/cost"
)

// A list of processes may say "those of this host" as often as it likes: they are listed once. 1.7 MB of a request had
// become 208 MiB.
func TestLocalPeersAgainAndAgain(t *testing.T) {
	const localPeers, times, perHost = 0xfffffffb, 20_000, 256
	synctest.Test(t, func(t *testing.T) {
		m := newMulti(t, 2, nil)
		defer m.stop()
		var ranks []int
		for r := range perHost {
			ranks = append(ranks, r)
		}
		m.add(ranks, []int{perHost})
		c := m.connect(0, 0)
		defer c.nc.Close()
		procs := make([]bfrops.Proc, times)
		for i := range procs {
			procs[i] = m.proc(0, localPeers)
		}
		payload := request(3, list(procs...))
		cost.AtMost(t, cost.Bound{Fixed: 1 << 20, PerByte: 16}, len(payload), func() {
			c.send(101, payload)
			synctest.Wait()
		})
		if err := m.err(); err != nil {
			t.Error(err)
		}
	})
}
