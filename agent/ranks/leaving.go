package ranks

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mpiup/mpiup/agent/reap"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/pmi/client"
)

// A rank's first process may end and leave the rank's work to another: a server that makes itself a daemon, "setsid
// PROGRAM", sh -c 'PROGRAM &'. Hydra and Open MPI wait for as long as somebody has the rank's output open, so that any
// daemon holds up a run for ever. Here a rank ends when its first process has, and those that were in MPI for it, its
// clients:
//
//	first process ends ──▶ badly, or a stop has begun: the rank is over
//	                   ──▶ well: a client lives                           ──▶ wait for its end
//	                             none, but processes that may become one  ──▶ wait a while, see linger
//	                             nobody                                   ──▶ the rank is over
//
// One that has called MPI_Finalize may have its result to write yet, and is waited for, as Hydra does. What is left then
// are daemons that were never in MPI, which end with the rank as ever.

const (
	// execPatience is for what was just forked and has not come to its program yet.
	execPatience = 300 * time.Millisecond

	// outputPatience is for processes that have the rank's output open, after their last byte: as long as the output of a
	// rank is read on after its end (stdio.Config).
	outputPatience = 2 * time.Second

	// mpiPatience is for processes that have an MPI library and have not called MPI_Init.
	mpiPatience = 30 * time.Second

	// mpiMention is when the user is told that they are waited for.
	mpiMention = 5 * time.Second

	// maxLeaving bounds the wait for processes that only have the output open, whatever they write.
	maxLeaving = 10 * time.Second

	// remainLook is the time between two looks at what is left.
	remainLook = 20 * time.Millisecond

	// sureLooks is in how many looks after each other nobody is to be seen, where none of them is sure by itself.
	sureLooks = 3

	// unsureLook is the same after one that may have missed somebody.
	unsureLook = time.Millisecond

	// slowLook is the same after execPatience.
	slowLook = 200 * time.Millisecond

	// stopPatience is how long a stop that has sent SIGKILL is given.
	stopPatience = 10 * time.Second

	// maxMaps bounds the processes whose memory maps are read in one look.
	maxMaps = 16

	// maxClients bounds the clients of a rank that are remembered.
	maxClients = 16
)

// clients are the processes that were in MPI for a rank. The zero value has seen none.
type clients struct {
	mu    sync.Mutex
	list  []*member // guarded by mu; known ones, the last is the one that is or was in MPI last
	over  bool      // guarded by mu; the rank has ended, and nobody is followed any more
	ended ending    // guarded by mu; of the last client that ended after the first process had
}

// member is one client.
type member struct {
	who   client.Process
	name  string        // in words
	after bool          // guarded by clients.mu; it lived when the first process had ended
	done  chan struct{} // closed when it has ended; nil of the rank's first process
	end   ending        // not changed once done is closed
}

// ending is how a client has ended that was not the rank's first process.
type ending struct {
	exit   job.Exit
	known  bool       // exit is: this process had become its parent
	dumped *reap.User // as whom it has left a core; nil: it has not, or that does not show
	at     time.Time
}

// note remembers who is in MPI for the rank from here on, and calls follow with who is new, if that is not the first
// process: not after the rank's end.
func (c *clients) note(who client.Process, first int, follow func(m *member)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || !who.Known() {
		return
	}
	if i := slices.IndexFunc(c.list, func(m *member) bool { return m.who.Is(who) }); i >= 0 {
		m := c.list[i]
		c.list = append(slices.Delete(c.list, i, i+1), m)
		return
	}
	if len(c.list) >= maxClients {
		c.list = slices.Delete(c.list, 0, 1)
	}
	m := &member{who: who}
	c.list = append(c.list, m)
	if who.PID != first {
		m.done = make(chan struct{})
		follow(m)
	}
}

// close notes that the rank has ended.
func (c *clients) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
}

// last is who was in MPI for the rank last; the zero value: nobody that is known.
func (c *clients) last() (who client.Process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.list); n > 0 {
		who = c.list[n-1].who
	}
	return who
}

// isOver says that the rank has ended.
func (c *clients) isOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

// outlive notes which clients live now that the first process has ended.
func (c *clients) outlive(lives func(client.Process) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.list {
		m.after = m.after || m.done != nil && lives(m.who)
	}
}

// next is a client whose end was not counted yet, latest first, and that either lives or has ended after the first
// process; nil: there is none. It is counted with counted.
func (c *clients) next(firstEnded time.Time) *member {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range slices.Backward(c.list) {
		if m.done == nil {
			continue
		}
		select {
		case <-m.done:
			if m.after || m.end.known && m.end.at.After(firstEnded) {
				return m
			}
		default:
			return m
		}
	}
	return nil
}

// counted notes that the rank has ended as this client has, if nobody follows.
func (c *clients) counted(m *member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := m.end
	if before := c.ended; before.known && before.exit.Status() != 0 { // whoever follows does not make it good
		before.at = e.at
		e = before
	}
	c.ended = e
	if i := slices.Index(c.list, m); i >= 0 {
		c.list[i] = &member{who: m.who}
	}
}

// exit is how and when the rank has ended: as its first process, or as its client where that went on and ended badly.
func (p *Process) exit() (exit job.Exit, at time.Time) {
	exit, at = p.process.Exit(), p.process.Ended()
	p.clients.mu.Lock()
	e := p.clients.ended
	p.clients.mu.Unlock()
	if e.at.IsZero() {
		return exit, at
	}
	if e.known && e.exit.Status() != 0 {
		exit = e.exit
	}
	return exit, e.at
}

// outputSince is from when on the rank's output is only that of what it has left behind.
func (p *Process) outputSince() time.Time {
	_, at := p.exit()
	return at
}

// followClient notes who is in MPI for the rank from here on, and how that ends.
func (p *Process) followClient(who client.Process) {
	st := p.Job
	p.clients.note(who, p.process.Pid(), func(m *member) {
		m.name = st.s.processName(who.PID)
		m.after = p.process.Over()
		st.wg.Go(func() {
			defer close(m.done)
			exit, dumped, known, _ := st.s.Super.Await(st.ctx, who.PID, who.Start)
			m.end = ending{exit: exit, dumped: dumped, known: known, at: time.Now()}
		})
	})
}

// awaitClients waits, after the end of the rank's first process, for that of the rank. drained is closed when nobody has
// its output open any more.
func (p *Process) awaitClients(drained <-chan struct{}) {
	st := p.Job
	if p.process.Exit().Status() != 0 || !p.Speaks() || st.Launch.Exec != nil || st.Launch.Job.Explain > 0 {
		return
	}
	l := leaving{p: p, drained: drained}
	for {
		last := p.clients.last()
		m := p.clients.next(p.process.Ended())
		if m != nil && !l.await(m) {
			return
		}
		if m == nil && !l.linger(last) && p.clients.last() == last {
			return
		}
	}
}

// leaving is a rank whose first process has ended.
type leaving struct {
	p       *Process
	drained <-chan struct{}
	told    bool // the user knows that the rank goes on without its first process
}

func (l *leaving) isDrained() bool {
	select {
	case <-l.drained:
		return true
	default:
		return false
	}
}

// await waits for the end of a client; false: the rank is over, whatever becomes of it.
func (l *leaving) await(m *member) bool {
	p := l.p
	st := p.Job
	select {
	case <-m.done:
	case <-st.may.Done():
		select {
		case <-m.done: // before the stop, or about then: it ended by itself
		default:
			p.stopGoesOn()
			bound, free := awake.Within(st.ctx, p.untilKill()+stopPatience)
			defer free()
			select {
			case <-m.done:
			case <-bound.Done(): // a stop does not end it
				return false
			}
		}
	}
	latest := m.who == p.clients.last()
	p.clients.counted(m)
	if unfinished := p.State() == apiv1.PmiState_PMI_RUNNING; unfinished && latest && !st.isStopped() {
		how := "ended"
		if m.end.known {
			how = "ended with " + m.end.exit.String()
		}
		st.s.Notice(true, "%v: %s, which was in MPI for it when its first process had ended with exit code 0, %s without MPI_Finalize", p, m.name, how)
	}
	return true
}

// linger waits for a while that one of the processes that are left comes to MPI, after last, whose end was counted; false:
// none does.
func (l *leaving) linger(last client.Process) bool {
	p := l.p
	st := p.Job
	unfinished := p.State() == apiv1.PmiState_PMI_RUNNING
	if unfinished || last.PID == p.process.Pid() { // it was in MPI itself, and what it leaves is no rank
		return false
	}
	var waited, quiet time.Duration // in which this process ran; quiet is since the rank's last byte
	before, wrote := time.Now(), p.wrote.Load()
	for nobody := 0; ; {
		left, sure := p.remains()
		if st.isStopped() {
			return false
		}
		if len(left) == 0 {
			if nobody++; sure || nobody == sureLooks {
				return false
			}
			l.pause(unsureLook)
			continue
		}
		nobody = 0

		library := l.libraryOf(left)
		patience, spent := execPatience, waited
		switch {
		case library != "":
			patience = mpiPatience
		case !l.isDrained() && waited < maxLeaving:
			patience, spent = outputPatience, quiet
		}
		if spent >= patience {
			l.giveUp(left, library)
			return false
		}
		if library != "" && waited >= mpiMention {
			l.mention(left, library)
		}

		look := remainLook
		if waited > execPatience {
			look = slowLook
		}
		l.pause(look)
		now := time.Now()
		step := awake.Counts(before, now, look)
		before = now
		waited, quiet = waited+step, quiet+step
		if last := p.wrote.Load(); last != wrote {
			wrote, quiet = last, 0
		}
		if who := p.clients.last(); who != last {
			return true
		}
	}
}

// pause waits for the next look.
func (l *leaving) pause(look time.Duration) {
	pause := time.NewTimer(look)
	defer pause.Stop()
	select {
	case <-l.p.changed: // perhaps one has come to MPI
	case <-pause.C:
	case <-l.p.Job.may.Done():
	}
}

// libraryOf is the MPI library of those processes that may come to MPI yet; "": none is to be seen.
func (l *leaving) libraryOf(left []reap.Remnant) string {
	p := l.p
	for _, r := range left[:min(len(left), maxMaps)] {
		if library := p.Job.s.Libs.Mapped(r.PID); library != "" {
			return library
		}
	}
	if p.State() == apiv1.PmiState_PMI_NEVER {
		return surely(p)
	}
	return ""
}

// mention tells the user, once, that the rank goes on without its first process.
func (l *leaving) mention(left []reap.Remnant, library string) {
	if l.told {
		return
	}
	l.told = true
	l.p.Job.s.Notice(false, "%v: its first process has ended and left %s: since it may use %s, its MPI_Init is waited for, for %v at most",
		l.p, l.p.Job.s.processName(left[0].PID), library, mpiPatience)
}

// giveUp tells the user of who was waited for in vain, if that may have been in MPI's way.
func (l *leaving) giveUp(left []reap.Remnant, library string) {
	if library == "" {
		return
	}
	l.p.Job.s.Notice(true, "%v: %s, which its first process left and which may use %s, did not call MPI_Init within %v, and ends with the rank",
		l.p, l.p.Job.s.processName(left[0].PID), library, mpiPatience)
}

// remains is what is left of the rank besides its first process: processes that have its own variables, or none that
// show. sure says that the look can have missed nobody.
func (p *Process) remains() (left []reap.Remnant, sure bool) {
	all, sure := p.Job.s.Super.Remains(p.Job.s.ID, keyOf)
	return slices.DeleteFunc(all, func(r reap.Remnant) bool { return !r.Bare && r.Key != p.key }), sure
}

// keyNames are variables by which a rank's processes are told from those of other ranks of a session.
var keyNames = []string{"MPIUP_RANK", "MPIUP_SIZE", "PMIX_NAMESPACE", "PMIX_RANK", "PMI_RANK", "PMI_PORT", "PMI_ID"}

// keyOf makes one text of those variables of an environment, in whatever order that has them.
func keyOf(environ []byte) string {
	values := make([]string, len(keyNames))
	for kv := range bytes.SplitSeq(environ, []byte{0}) {
		name, value, _ := bytes.Cut(kv, []byte{'='})
		if i := slices.Index(keyNames, string(name)); i >= 0 {
			values[i] = string(value)
		}
	}
	return strings.Join(values, "\x00")
}

// stopGoesOn notes that a stop ends a rank that goes on without its first process: what follows is not its own doing.
func (p *Process) stopGoesOn() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ours = p.ours || !p.ended
}

// untilKill is how long a stop leaves the rank yet.
func (p *Process) untilKill() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(time.Until(p.kill), 0)
}

// signalOthers sends a signal to what is left of a rank whose first process has ended: to who is in MPI for it, or may
// come to that.
func (p *Process) signalOthers(sig syscall.Signal) {
	if p.clients.isOver() || p.process.Exit().Status() != 0 {
		return
	}
	super := p.Job.s.Super
	if who := p.clients.last(); who.Known() && p.Job.s.Lives(who) {
		super.AskOther(who.PID, who.Start, sig)
		return
	}
	left, _ := p.remains()
	for _, r := range left {
		super.AskOther(r.PID, r.Start, sig)
	}
}
