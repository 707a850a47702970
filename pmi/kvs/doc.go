// Package kvs is the engine behind every process management interface: what the ranks of one
// host put, which fences they are in, and the names they publish. PMI-1, PMI-2 and PMIx are
// wire formats above it.
//
//	  rank goroutines (one per connection)           other hosts
//	   Put  Get  Fence  Attr                             ▲
//	    │    │     │     │                               │ Upstream: Exchange, Fetch
//	    ▼    ▼     ▼     ▼                               │
//	┌──────────────────────────────────────────────────────────┐
//	│ store   owner rank, key → bytes    fences  set → entered │
//	│ attrs   of this host               names   of the job    │
//	└──────────────────────────────────────────────────────────┘
//
// A value has an owner rank, a key and opaque bytes. It is visible on its own host at once, and
// on the hosts of a fence's other ranks once that fence is through. In between, Get asks
// Upstream.Fetch, once per call.
//
// A fence is a set of ranks and an epoch that counts the fences of this set:
//
//	                first local rank       last local rank          Upstream answers
//	(none) ─────────────▶ gathering ──────────▶ exchanging ──────────────▶ done
//	                          │ a rank of the set is gone             │ or that it will not be
//	                          └──────────▶ failed ◀───────────────────┘
//
// A fence that is exchanging may be over elsewhere, and its ranks past it: that a rank has gone is then
// no reason to fail it here, and Upstream, which hears of the rank too, decides.
//
// This host's contribution leaves it once, when its last rank of the set has entered: everything
// that these ranks put and the set's hosts are not known to have (nothing if the fence does not collect; the
// data then waits for one that does, and for Fetch). What open fences carry is bounded (share.go).
//
// Concurrency: all methods of Engine may be called from any goroutine. Fence and a waiting Attr
// block; they end with ctx, with the fence, or with Close. The engine starts one goroutine per
// fence that leaves the host, and Close waits for it. fence.go has no goroutine, clock or I/O.
//
// It does not know processes, sockets or time: RankGone tells it that a rank will never come.
package kvs
