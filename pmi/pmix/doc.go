// Package pmix is a PMIx server in pure Go: it hosts ranks whose MPI library carries any libpmix
// from 2.1 to 7 (Open MPI 4.0 to 6.0), without libpmix on this side.
//
//	rank ──TCP──▶ ptl: handshake, frames ──▶ conn ──▶ command table ──▶ kvs.Engine ──▶ other hosts
//	                                          │        one file each     section of a rank, fences
//	                                          └── bfrops: the client's dialect
//
// What a rank commits are two sections. The local one stays on this host, in the Server; the
// remote one is one value of the engine, packed groups of KVAL in bfrops.Canonical, so that a
// fence carries it and a client of that dialect gets it as it came.
//
// A rank may connect several times, one after the other (MPI sessions, several programs of a
// script) and at once (a child that initializes PMIx, a second libpmix in the process). The
// first is its main connection, and how that ends is how the rank ends; those made while it
// runs are served alike, and their ends mean nothing.
//
//	         handshake                  FINALIZE on the main one
//	absent ─────────────▶ running ─────────────────────────────────▶ finalized
//	                        │  ▲                                         │
//	   *UnfinishedError ◀───┘  └───────────────── handshake ─────────────┘
//	     the main one hangs up
//
// Concurrency: a goroutine per connection reads requests and answers most of them; those that
// wait (FENCE, GET, LOOKUP, CONNECT, groups) have a goroutine each, bounded per connection. Run
// waits for all. Methods of Server may be called from any goroutine; hooks run in the
// connection's and must not block.
//
// The server knows all jobs of a run (Add), since ranks of one may connect to those of another:
// what a request names is (namespace, rank), which party.go resolves. Outside, a process has an
// id, base of its job + rank.
//
// The package starts no process and makes no listener, and ends no rank: its caller does.
// Fabrics, allocation and credentials are answered as not supported.
package pmix
