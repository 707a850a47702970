package reap

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/mpiup/mpiup/agent/reap/proctree"
	"github.com/mpiup/mpiup/internal/awake"
)

// Holding says whether a process of a session has a socket open.
type Holding int

const (
	NotHeld Holding = iota // no process of the session has it
	Held                   // one has
	Hidden                 // perhaps: /proc does not show what a process of the socket's user has open
)

// forkWait bounds the wait for a fork of the session in flight: a child runs before it is in the
// table.
const forkWait = time.Second

// Holder finds the process of a session that has the socket of that inode open, whose creator had uid; pid is 0 where
// none is Held. It looks at the session's own children and theirs first: at likely, which may be nil, before all others,
// and last at those that were found to hold a socket before. As a rule a rank connects once. Then all of /proc is looked
// at for descendants, twice, because a process may fork while it is looked at; many calls share one such look.
func (s *Supervisor) Holder(ctx context.Context, session string, likely *Process, inode uint64, uid uint32) (pid int, h Holding) {
	if s.proc.Verify() != nil {
		if uid == uint32(os.Getuid()) {
			return 0, Hidden
		}
		return 0, NotHeld
	}

	if likely != nil {
		pid = s.holderNear(likely, session, inode)
	}
	if pid == 0 {
		pid = s.holderBelow(session, inode)
	}
	if pid == 0 && s.awaitFork(ctx, session) {
		pid = s.holderBelow(session, inode)
	}
	if pid > 0 {
		return pid, Held
	}

	var seen holdings
	for range 2 { // the first look may have begun before this call
		seen = s.holdings(session)
		if pid = seen.sockets[inode]; pid > 0 {
			return pid, Held
		}
	}
	s.rest(seen.took)
	if seen.blind[uid] {
		return 0, Hidden
	}
	return 0, NotHeld
}

// holderNear looks at one child, if it is still one, and at its descendants; 0: none of them has it.
func (s *Supervisor) holderNear(p *Process, session string, inode uint64) (pid int) {
	s.mu.Lock()
	ours, near := s.table[p.pid] == p && p.session == session, p.near
	s.mu.Unlock()
	if !ours {
		return 0
	}
	fd, ok := s.proc.SocketNear(p.pid, near, inode)
	if pid = p.pid; !ok {
		pid, fd = s.proc.BranchHolder(p.pid, inode)
	}
	if pid == p.pid && fd != near && fd > 0 {
		s.mu.Lock()
		p.near = fd
		s.mu.Unlock()
	}
	return pid
}

// holderBelow looks at the session's children in the table and at their descendants, and remembers
// the child below which it is; 0: none of them has it.
func (s *Supervisor) holderBelow(session string, inode uint64) (pid int) {
	type child struct {
		*Process
		found int
	}
	var list []child
	s.mu.Lock()
	for _, p := range s.table {
		if !p.guard && p.session == session {
			list = append(list, child{p, p.found})
		}
	}
	s.mu.Unlock()
	slices.SortFunc(list, func(a, b child) int {
		return cmp.Or(cmp.Compare(a.found, b.found), cmp.Compare(a.pid, b.pid))
	})
	for _, c := range list {
		if pid, _ = s.proc.BranchHolder(c.pid, inode); pid > 0 {
			s.mu.Lock()
			c.Process.found++
			s.mu.Unlock()
			return pid
		}
	}
	return 0
}

// awaitFork waits for the end of a fork for the session, and says whether there was one.
func (s *Supervisor) awaitFork(ctx context.Context, session string) bool {
	s.mu.Lock()
	req := s.forking
	s.mu.Unlock()
	if req == nil || req.cmd.Session != session {
		return false
	}
	ctx, cancel := awake.Within(ctx, forkWait)
	defer cancel()
	select {
	case <-req.born:
	case <-ctx.Done():
	}
	return true
}

// holdings is what all processes of a session have open.
type holdings struct {
	sockets map[uint64]int  // by inode, a process that has it
	blind   map[uint32]bool // users of the processes that do not show what they have
	took    time.Duration
}

// maxSockets bounds what is noted of a session. Of processes with more nothing is known.
const maxSockets = 1 << 18

// holdings looks at all of the session's processes. Calls that come while another looks get what
// that one sees.
func (s *Supervisor) holdings(session string) holdings {
	v, _, _ := s.looks.Do(session, func() (any, error) {
		s.awaitRest()
		begin := time.Now()
		h := holdings{sockets: map[uint64]int{}, blind: map[uint32]bool{}}
		all, err := s.proc.Snapshot()
		if err != nil {
			return h, nil
		}
		t := s.tree(all, nil)
		for _, p := range all {
			if !p.Alive() || p.PID == t.Self || t.Exempt[p.PID] || t.Lineage(p.PID) != session {
				continue
			}
			err := s.proc.EachSocket(p.PID, func(_ string, n uint64) bool {
				h.sockets[n] = p.PID
				return len(h.sockets) < maxSockets
			})
			if errors.Is(err, os.ErrPermission) || errors.Is(err, proctree.ErrTooMany) || len(h.sockets) >= maxSockets {
				for _, uid := range s.proc.UIDs(p.PID) {
					h.blind[uid] = true
				}
			}
		}
		h.took = time.Since(begin)
		return h, nil
	})
	return v.(holdings)
}

// maxRest bounds the pause between looks.
const maxRest = 50 * time.Millisecond

// rest puts the next look off after one for a stranger, by four times as long as that took. So strangers who come
// again and again do not keep the host busy.
func (s *Supervisor) rest(took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nextLook = time.Now().Add(min(4*took, maxRest))
}

func (s *Supervisor) awaitRest() {
	s.mu.Lock()
	d := time.Until(s.nextLook)
	s.mu.Unlock()
	if d > 0 {
		<-time.After(d)
	}
}

// EachSocket calls f with the inode of every socket that a process or one of its nearest descendants has open, until f
// returns false. The error says that not all are shown.
func (s *Supervisor) EachSocket(pid int, f func(inode uint64) bool) error {
	if err := s.proc.Verify(); err != nil {
		return err
	}
	return s.proc.EachOfBranch(pid, func(_ int, _ string, inode uint64) bool { return f(inode) })
}
