// Package kvs is the engine behind every process management interface: what the ranks of one
// host put, which fences they are in, and the names they publish. PMI-1, PMI-2 and PMIx are
// wire formats above it. There is one engine for a run on each host.
//
//	  rank goroutines (one per connection)           other hosts
//	   Put  Get  Attr      Fence                         ▲
//	    │    │    │          │                           │ Upstream: Exchange, Fetch
//	    ▼    ▼    ▼          ▼                           │
//	┌──────────────────┬─────────────────────────────────────┐
//	│ Space, one a job │ Engine, one a run                   │
//	│  store           │  fences  set of ids, tag → entered  │
//	│  attrs           │  names                              │
//	└──────────────────┴─────────────────────────────────────┘
//
// A process is named by its id in the run: the base of its job plus its rank there. Sets of fences and who is gone are
// ids. A Space is one job's and speaks of its ranks.
//
// A value has an owner rank, a key and opaque bytes. It is visible on its own host at once, and
// on the hosts of a fence's other ranks once that fence is through. In between, Get asks
// Upstream.Fetch, once per call.
//
// A fence is a set of processes, of one job or several, a tag, and an epoch that counts the fences of both:
//
//	                first of this host     last of this host       Upstream answers
//	(none) ─────────────▶ gathering ──────────▶ exchanging ──────────────▶ done
//	                          │ one of the set is gone                │ or that it will not be
//	                          └──────────▶ failed ◀───────────────────┘
//
// A fence that is exchanging may be over elsewhere, and its processes past it: that one has gone is then
// no reason to fail it here, and Upstream, which hears of it too, decides.
//
// This host's contribution leaves it once, when its last process of the set has entered: everything
// that these put and the set's hosts are not known to have (nothing if the fence does not collect, as those over
// several jobs; the data then waits for one that does, and for Fetch). What open fences carry is bounded (share.go).
//
// Concurrency: all methods of Engine and Space may be called from any goroutine. Fence and a waiting Attr
// block; they end with ctx, with the fence, or with Close. A space starts one goroutine per
// fence that leaves the host, and Close waits for it. fence.go and store.go have no goroutine, clock or I/O.
//
// It does not know processes, sockets or time: RankGone tells it that a rank will never come.
package kvs
