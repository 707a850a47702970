package session

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"

	"github.com/mpiup/mpiup/internal/job"
)

// reserved are TCP ports of this host for processes that will listen on them later. It looks whether
// a port is free, and notes it as one session's until that session has ended. It never holds the port open, or the
// process could not have it.
//
//	Reserve ──▶ noted for a session, free when looked at ──▶ the session's rank listens there ──▶ Release
//
// Two sessions of one agent never get the same port. Agents that share a network namespace have tables of
// their own. Each begins at random and passes over what is in use. So they collide once in some
// thousand times, and only if both look before either's rank listens.
//
// The zero value has none and is ready for use, by any number of goroutines.
type reserved struct {
	mu    sync.Mutex
	owner map[uint16]string // guarded by mu
}

// Reserve finds up to n ports of a range that nobody listens on, and notes them as owner's. Fewer than n
// means that the range has no more. In the user's own range it begins with the last ports, since MPI
// libraries take the first; else it begins anywhere.
func (t *reserved) Reserve(owner string, n int, r job.Ports, own bool) (list []uint16) {
	first := 0
	if !own {
		first = rand.IntN(max(r.Len(), 1))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.owner == nil {
		t.owner = map[uint16]string{}
	}
	for i := 0; i < r.Len() && len(list) < n; i++ {
		p := r.High - uint16((first+i)%r.Len())
		if t.owner[p] == "" && free(p) {
			t.owner[p] = owner
			list = append(list, p)
		}
	}
	return list
}

// Release forgets what is noted as owner's.
func (t *reserved) Release(owner string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for p, o := range t.owner {
		if o == owner {
			delete(t.owner, p)
		}
	}
}

// free says that a process could listen on a port of every address.
func free(p uint16) bool {
	l, err := net.Listen("tcp", ":"+strconv.Itoa(int(p)))
	if err != nil {
		return false
	}
	l.Close()
	return true
}

// Usual is the range where ports are looked for unless the user names one: 20000 to 29999, or what of it lies
// below those that the kernel gives to connections (/proc/sys/net/ipv4/ip_local_port_range). The kernel may take one of
// those, free now, the next moment. Kubernetes' node ports begin at 30000.
func Usual(host fs.FS) job.Ports {
	r := job.Ports{Low: 20000, High: 29999}
	text, _ := fs.ReadFile(host, "proc/sys/net/ipv4/ip_local_port_range")
	var low uint16
	switch _, err := fmt.Sscan(string(text), &low); {
	case err != nil || low > 29999:
	case low > 21000:
		r.High = low - 1
	case low > 11000: // a kernel with few ports below leaves those from 10000 on
		r = job.Ports{Low: 10000, High: low - 1}
	}
	return r
}
