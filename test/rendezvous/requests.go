package rendezvous

import (
	"fmt"
	"iter"
)

// addressBytes is what a rank puts for each other one: gloo's transport/tcp/address.h.
const addressBytes = 136

// Place is who a rank is among all, among those of its host, and among those of its local rank.
type Place struct {
	Host             string
	Rank, Size       int
	Local, LocalSize int
	Cross, CrossSize int
}

// PlaceOf is a rank's place where each host has perHost ranks and is called w0, w1 and so on.
func PlaceOf(rank, size, perHost int) Place {
	return Place{Host: fmt.Sprintf("w%d", rank/perHost), Rank: rank, Size: size, Local: rank % perHost, LocalSize: perHost,
		Cross: rank / perHost, CrossSize: size / perHost}
}

// Scope is where some ranks meet, and which of them asks.
type Scope struct {
	Name       string
	Rank, Size int
}

// Scopes are those of hvd.init(), in their order. set is the hash by which Horovod names the process set of all ranks.
func (p Place) Scopes(set string) []Scope {
	first := []Scope{{"global", p.Rank, p.Size}, {"local_" + p.Host, p.Local, p.LocalSize}, {fmt.Sprintf("cross_%d", p.Local), p.Cross, p.CrossSize}}
	all := first
	for _, s := range first {
		all = append(all, Scope{s.Name + "_process_set_hash_" + set, s.Rank, s.Size})
	}
	return all
}

// Request is one of a rank's.
type Request struct {
	Method, Key string
	Bytes       int  // that it puts
	Again       bool // asked for again until it is there
}

// Meet is what a rank asks until it knows all others.
func (s Scope) Meet() iter.Seq[Request] {
	return func(yield func(Request) bool) {
		if !yield(Request{Method: "PUT", Key: fmt.Sprintf("rank_%d", s.Rank), Bytes: len("vm")}) {
			return
		}
		for i := range s.Rank {
			if !yield(Request{Method: "GET", Key: fmt.Sprintf("rank_%d", i)}) {
				return
			}
		}
		if !yield(Request{Method: "PUT", Key: fmt.Sprint(s.Rank), Bytes: addressBytes * (s.Size - 1)}) {
			return
		}
		for i := range s.Size {
			key := fmt.Sprint(i)
			if i != s.Rank && (!yield(Request{Method: "GET", Key: key, Again: true}) || !yield(Request{Method: "GET", Key: key})) {
				return
			}
		}
	}
}

// Finish is what it asks when all are connected.
func (s Scope) Finish() Request { return Request{Method: "DELETE", Key: fmt.Sprint(s.Rank)} }
