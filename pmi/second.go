package pmi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/mpiup/mpiup/pmi/client"
)

// A rank's descriptor is inherited by whatever the rank starts, and each writer's bytes come apart from those of others
// (client.Credentials). So what a second process says, which was refused, is taken out of the stream before the first
// one's messages are read:
//
//	conn ──chunk of one writer──▶ seconds.Read ──▶ bufio ──▶ session
//	                                │ a refused one's
//	                                ▼
//	                              answered "refused", and nothing else happens
//
// An answer that its asker does not read would be read by the first process as one to its own next request. So a refused
// process gets one for each request, but for abort: MPICH up to 4.0 waits for an answer there (src/pmi/simple/simple_pmi.c,
// PMI_Abort), and later ones do not (src/pmi/src/pmi_v1.c). There an answer follows once the process is seen to wait. Two
// that read at the same time take each other's answers all the same, as the kernel gives them to whoever asks first: a rank
// mostly waits for what it has started, and where each has a connection of its own (PMI_PORT) nothing is shared.

const (
	// maxRefused bounds the processes that are remembered as refused. Beyond it only the first one may speak.
	maxRefused = 64

	// sleepLook is the time between two looks at whether who aborts waits for an answer.
	sleepLook = 20 * time.Millisecond

	// sleepLooks is in how many looks after each other it has to sleep.
	sleepLooks = 3

	// answerBound is how long that is looked at.
	answerBound = 30 * time.Second
)

// seconds is a session's connection without what refused processes write. It belongs to the session's goroutine.
type seconds struct {
	session *session
	ctx     context.Context  // ends with the session
	refused []client.Process // those that said init while another process was in MPI
	only    client.Process   // who alone may speak, where more were refused than are remembered
	asked   map[client.Process]chan struct{}
}

// speaker is who wrote what was read last; the zero value where that is not known.
func (x *seconds) speaker() client.Process {
	if c, ok := x.session.conn.(client.Speaker); ok {
		return c.Speaker()
	}
	return client.Process{}
}

// refuse notes that a process may not speak for the rank, since first is in MPI for it, and tells of it.
func (x *seconds) refuse(who, first client.Process) {
	lives := x.session.srv.job.Processes.Lives
	x.refused = slices.DeleteFunc(x.refused, func(p client.Process) bool { return p == who || !lives(p) })
	if len(x.refused) < maxRefused {
		x.refused = append(x.refused, who)
	} else {
		x.only = first
	}
	if f := x.session.srv.job.Hooks.OnSecond; f != nil {
		f(client.Second{Rank: x.session.rank, First: first, Second: who})
	}
}

// admit notes that a process is in MPI for the rank from here on.
func (x *seconds) admit(who client.Process) {
	x.refused = slices.DeleteFunc(x.refused, func(p client.Process) bool { return p == who })
	x.only = client.Process{}
}

// mayNot says that what a process writes is none of the rank's.
func (x *seconds) mayNot(who client.Process) bool {
	if len(x.refused) == 0 {
		return false
	}
	return slices.Contains(x.refused, who) || x.only.Known() && !x.only.Is(who)
}

// beginsAnew says that a chunk begins with the request by which a process may become the rank's when the first has left.
func beginsAnew(chunk []byte) bool {
	whole := bytes.IndexByte(chunk, '\n') > 0
	return whole && bytes.HasPrefix(chunk, []byte("cmd="+initName+" "))
}

// Read gives the session what may speak for the rank writes.
func (x *seconds) Read(b []byte) (int, error) {
	for {
		n, err := x.session.conn.Read(b)
		who := x.speaker()
		if n == 0 || err != nil || !x.mayNot(who) || beginsAnew(b[:n]) {
			return n, err
		}
		if asked, waits := x.asked[who]; waits { // it went on, and so does not wait for an answer
			close(asked)
			delete(x.asked, who)
		}
		x.answer(who, b[:n])
	}
}

// answerRest answers what a process wrote behind an init that was refused. Only a process that asks for nothing but init
// reads its answer before it goes on, but nothing of the rest may pass for the rank's.
func (x *seconds) answerRest() error {
	who := x.speaker()
	n := x.session.in.Buffered()
	if n == 0 || !x.mayNot(who) {
		return nil
	}
	rest := make([]byte, n) // of this writer's chunk alone: the buffer is filled when it is empty
	if _, err := io.ReadFull(x.session.in, rest); err != nil {
		return err
	}
	x.answer(who, rest)
	return nil
}

// answer tells a refused process of each of its requests that it is refused.
func (x *seconds) answer(who client.Process, chunk []byte) {
	r := &reply{name: "refused"}
	requests := bytes.Count(chunk, []byte{'\n'})
	aborts := bytes.Contains(chunk, []byte("cmd=abort"))
	if c := chunk[0]; c == ' ' || c >= '0' && c <= '9' { // PMI-2
		m, err := ParsePMI2(string(chunk[min(lengthDigits, len(chunk)):]))
		if err != nil {
			return
		}
		requests, r.v2 = 1, true
		r.name = unknown.replyName(m.Name, true)
		if thread, ok := m.Get("thrid"); ok {
			r.add("thrid", thread)
		}
		if aborts {
			return // nobody waits
		}
	}
	r.refuse(-1, "another process is in MPI for this rank")
	if aborts {
		if c, ok := x.session.conn.(client.Speaker); ok && c.Shared() {
			x.answerLater(who, r)
			return
		}
	}
	for range requests {
		x.session.write(r)
	}
}

// answerLater gives a process that aborts its answer when it is seen to wait for one.
func (x *seconds) answerLater(who client.Process, r *reply) {
	processes := x.session.srv.job.Processes
	maps.DeleteFunc(x.asked, func(p client.Process, _ chan struct{}) bool { return !processes.Lives(p) })
	if processes.Sleeps == nil || len(x.asked) >= maxRefused {
		return
	}
	if x.asked == nil {
		x.asked = map[client.Process]chan struct{}{}
	}
	wentOn := make(chan struct{})
	x.asked[who] = wentOn
	x.session.barriers.Go(func() {
		looks := time.NewTicker(sleepLook)
		defer looks.Stop()
		slept := 0
		for range int(answerBound / sleepLook) {
			select {
			case <-looks.C:
			case <-wentOn:
				return
			case <-x.ctx.Done():
				return
			}
			if !processes.Lives(who) {
				return
			}
			if slept++; !processes.Sleeps(who) {
				slept = 0
			}
			if slept == sleepLooks {
				x.session.write(r)
				return
			}
		}
	})
}

// alreadyIn is why a process is not taken for a rank.
func alreadyIn(rank int, first client.Process) string {
	return fmt.Sprintf("rank %d is already in MPI as process %d", rank, first.PID)
}
