package resolve

import (
	"context"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Numbered are the names of a set of pods that differ in a number: w-0.sub, w-1.sub, up to as many as there are to be. A record set that
// grows may be cached without those that came since, for as long as its TTL; a pod's own name is past that within two seconds (Watch).
//
// It belongs to one goroutine.
type Numbered struct {
	watches []*Watch
	found   [][]netip.Addr // by each, as of its last answer
}

// maxNumbered bounds the names.
const maxNumbered = 1024

// Numbered are the n names like that of host, whose first label ends in a number, in domain; nil: it does not.
func (r *Resolver) Numbered(host, domain string, n int) *Numbered {
	label, _, _ := strings.Cut(host, ".")
	i := strings.LastIndexByte(label, '-')
	if number := label[i+1:]; i < 1 || domain == "" || number == "" || strings.Trim(number, "0123456789") != "" {
		return nil
	}
	set := &Numbered{found: make([][]netip.Addr, min(n, maxNumbered))}
	for k := range set.found {
		set.watches = append(set.watches, r.Watch(label[:i+1]+strconv.Itoa(k)+"."+domain))
	}
	return set
}

// Beside are the addresses of names that are not among known. Each name that is not is asked for, when that is due.
func (s *Numbered) Beside(ctx context.Context, known []netip.Addr) (more []netip.Addr) {
	if s == nil || len(known) >= len(s.watches) {
		return nil
	}
	const atOnce = 32
	turns := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for k, w := range s.watches {
		if slices.ContainsFunc(s.found[k], func(a netip.Addr) bool { return slices.Contains(known, a) }) {
			continue
		}
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			s.found[k], _ = w.Next(ctx) // the error is that it is not there
		})
	}
	all.Wait()
	for _, addrs := range s.found {
		for _, a := range addrs {
			if !slices.Contains(known, a) && !slices.Contains(more, a) {
				more = append(more, a)
			}
		}
	}
	return more
}
