package ranks

import (
	"bytes"
	"context"
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
//	                             none, but processes that may become one  ──▶ wait a while, see patienceFor
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

	// sureLooks is in how many looks after each other nobody is to be seen. The first may have begun before the first
	// process ended, and a look may miss who is forked in the middle of it by one that ends.
	sureLooks = 3

	// slowLook is the same after execPatience.
	slowLook = 200 * time.Millisecond

	// stopPatience is how long a stop that has sent SIGKILL is given.
	stopPatience = 10 * time.Second

	// maxClients bounds the clients of a rank that are remembered.
	maxClients = 16
)

// clients are the processes that were in MPI for a rank. The zero value has seen none.
type clients struct {
	mu      sync.Mutex
	list    []client.Process // guarded by mu; known ones, the last is the one that is or was in MPI last
	waiting bool             // guarded by mu; the first process has ended, and the rank has not
	ended   ending           // guarded by mu; of the last client that ended after the first process had
}

// ending is how a client has ended that was not the rank's first process.
type ending struct {
	who   client.Process // the zero value: there was none
	exit  job.Exit
	known bool // exit is: this process had become its parent
	at    time.Time
}

// note remembers who is in MPI for the rank from here on.
func (c *clients) note(who client.Process) {
	if !who.Known() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = slices.DeleteFunc(c.list, who.Is)
	if len(c.list) >= maxClients {
		c.list = slices.Delete(c.list, 0, 1)
	}
	c.list = append(c.list, who)
}

// last is who was in MPI for the rank last; the zero value: nobody that is known.
func (c *clients) last() (who client.Process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.list); n > 0 {
		who = c.list[n-1]
	}
	return who
}

// wait notes that the first process has ended and the rank goes on, or that it does not any more.
func (c *clients) wait(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = on
}

// goesOn says that the first process has ended and the rank goes on.
func (c *clients) goesOn() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting
}

// others are the clients but the rank's first process, latest first.
func (c *clients) others(first int) (list []client.Process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, who := range slices.Backward(c.list) {
		if who.PID != first {
			list = append(list, who)
		}
	}
	return list
}

// close notes how a client has ended.
func (c *clients) close(e ending) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if before := c.ended; before.known && before.exit.Status() != 0 { // whoever follows does not make it good
		before.at = e.at
		e = before
	}
	c.ended = e
}

// end is how the last client has ended, if that was after the first process.
func (c *clients) end() ending {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// exit is how and when the rank has ended: as its first process, or as its client where that went on and ended badly.
func (p *Process) exit() (exit job.Exit, at time.Time) {
	exit, at = p.process.Exit(), p.process.Ended()
	e := p.clients.end()
	if !e.who.Known() {
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

// awaitClients waits, after the end of the rank's first process, for that of the rank. drained is closed when nobody has
// its output open any more.
func (p *Process) awaitClients(drained <-chan struct{}) {
	st := p.Job
	if p.process.Exit().Status() != 0 || !p.Speaks() || st.Launch.Exec != nil || st.Launch.Job.Explain > 0 {
		return
	}
	p.clients.wait(true)
	defer p.clients.wait(false)
	l := leaving{p: p, drained: drained, since: p.process.Ended()}
	for {
		who, there := l.client()
		if there && !l.await(who) {
			return
		}
		if !there && !l.linger() {
			return
		}
	}
}

// leaving is a rank whose first process has ended.
type leaving struct {
	p       *Process
	drained <-chan struct{}
	since   time.Time // when the first process ended, or the last client
	told    bool      // the user knows that the rank goes on without its first process
}

// client finds a process that is to be waited for. One that was forked by a client which has ended is none: that has
// ended without MPI_Finalize.
func (l *leaving) client() (who client.Process, there bool) {
	list := l.p.clients.others(l.p.process.Pid())
	i := slices.IndexFunc(list, l.p.Job.s.Lives)
	if i < 0 {
		return who, false
	}
	return list[i], true
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
func (l *leaving) await(who client.Process) bool {
	p := l.p
	st := p.Job
	ctx, cancel := context.WithCancel(st.ctx)
	defer cancel()
	name := st.s.processName(who.PID)
	var watch sync.WaitGroup
	watch.Go(func() { l.release(ctx, cancel) })
	exit, known, ended := st.s.Super.Await(ctx, who.PID, who.Start)
	cancel()
	watch.Wait()
	if !ended {
		return false
	}
	l.since = time.Now()
	p.clients.close(ending{who: who, exit: exit, known: known, at: l.since})
	if unfinished := p.State() == apiv1.PmiState_PMI_RUNNING; unfinished && who == p.clients.last() && !st.isStopped() {
		how := "ended"
		if known {
			how = "ended with " + exit.String()
		}
		st.s.Notice(true, "%v: %s, which was in MPI for it when its first process had ended with exit code 0, %s without MPI_Finalize", p, name, how)
	}
	return true
}

// release ends the wait for a client that a stop does not end.
func (l *leaving) release(ctx context.Context, cancel context.CancelFunc) {
	select {
	case <-ctx.Done():
		return
	case <-l.p.Job.may.Done():
	}
	l.p.stopGoesOn()
	bound, free := awake.Within(ctx, l.p.untilKill()+stopPatience)
	defer free()
	<-bound.Done()
	cancel()
}

// linger waits for a while that one of the processes that are left comes to MPI; false: none does.
func (l *leaving) linger() bool {
	p := l.p
	st := p.Job
	last := p.clients.last()
	unfinished := p.State() == apiv1.PmiState_PMI_RUNNING
	if unfinished || last.PID == p.process.Pid() { // it was in MPI itself, and what it leaves is no rank
		return false
	}
	begun := time.Now()
	for nobody := 0; ; {
		left := p.remains()
		if st.isStopped() {
			return false
		}
		if len(left) == 0 {
			if nobody++; nobody == sureLooks {
				return false
			}
			continue
		}
		nobody = 0
		patience, library := l.patienceFor(left)
		if time.Since(l.since) >= patience {
			if library != "" {
				p.Job.s.Notice(true, "%v: %s, which its first process left, did not call MPI_Init within %v, and ends with the rank",
					p, p.Job.s.processName(left[0].PID), patience)
			}
			return false
		}
		l.mention(begun, left, library)
		look := remainLook
		if time.Since(begun) > execPatience {
			look = slowLook
		}
		t := time.NewTimer(look)
		select {
		case <-p.changed: // perhaps one has come to MPI
		case <-t.C:
		case <-st.may.Done():
		}
		t.Stop()
		if who := p.clients.last(); who != last {
			return true
		}
	}
}

// patienceFor is how long, since the rank's last process that counts has ended, it is waited that one of these comes to
// MPI, and the library of those that may.
func (l *leaving) patienceFor(left []reap.Remnant) (patience time.Duration, library string) {
	p := l.p
	for _, r := range left {
		if library = p.Job.s.Libs.Mapped(r.PID); library != "" {
			return mpiPatience, library
		}
	}
	if p.State() == apiv1.PmiState_PMI_NEVER {
		if library = surely(p); library != "" {
			return mpiPatience, library
		}
	}
	if l.isDrained() {
		return execPatience, ""
	}
	wrote := time.Unix(0, p.wrote.Load()).Sub(l.since)
	return min(max(wrote, 0)+outputPatience, maxLeaving), ""
}

// mention tells the user, once, that the rank goes on without its first process.
func (l *leaving) mention(begun time.Time, left []reap.Remnant, library string) {
	if l.told || library == "" || time.Since(begun) < mpiMention {
		return
	}
	l.told = true
	p := l.p
	p.Job.s.Notice(false, "%v: its first process has ended and left %s: since it may use %s, its MPI_Init is waited for, for %v at most",
		p, p.Job.s.processName(left[0].PID), library, mpiPatience)
}

// remains is what is left of the rank besides its first process: processes that have its own variables, or none that
// show, as in the middle of an exec.
func (p *Process) remains() []reap.Remnant {
	super := p.Job.s.Super
	return slices.DeleteFunc(slices.Clone(super.Remains(p.Job.s.ID)), func(r reap.Remnant) bool {
		environ := super.Environment(r.PID)
		return len(environ) > 0 && !hasAll(environ, p.marks)
	})
}

// hasAll says that an environment, of strings that end in NUL, has all of these.
func hasAll(environ []byte, marks []string) bool {
	for _, mark := range marks {
		begins := bytes.HasPrefix(environ, []byte(mark+"\x00"))
		if !begins && !bytes.Contains(environ, []byte("\x00"+mark+"\x00")) {
			return false
		}
	}
	return true
}

// markNames begin the variables by which a rank's processes are told from those of other ranks.
var markNames = []string{"MPIUP_SESSION=", "MPIUP_RANK=", "MPIUP_SIZE=", "PMIX_NAMESPACE=", "PMIX_RANK=", "PMI_RANK=", "PMI_PORT=", "PMI_ID="}

// marksOf are those variables of an environment.
func marksOf(env []string) (marks []string) {
	for _, kv := range env {
		if slices.ContainsFunc(markNames, func(name string) bool { return strings.HasPrefix(kv, name) }) {
			marks = append(marks, kv)
		}
	}
	return marks
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
	if !p.clients.goesOn() {
		return
	}
	super := p.Job.s.Super
	if who := p.clients.last(); who.Known() && p.Job.s.Lives(who) {
		super.AskOther(who.PID, who.Start, sig)
		return
	}
	for _, r := range p.remains() {
		super.AskOther(r.PID, r.Start, sig)
	}
}
