package launcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/launcher/link"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/launcher/survey"
)

// claims are the sessions that a launcher has taken over or tries to. Of two launchers that come at once, the one that has the first
// of the journal's hosts, of those that either has, goes on.
type claims struct {
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	missed []bool // by host, guarded by mu
}

// miss notes a host whose session cannot be had.
func (c *claims) miss(host int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.missed[host] = true
}

// yields says that another launcher wins: it has this host, and we have none of the hosts before it.
func (c *claims) yields(host int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !slices.Contains(c.missed[:host], false)
}

// adopt takes over each host's session. Those that cannot be had are in the predecessor's list; any says that one could. first is the word of
// another launcher that was there before us.
func (r *planner) adopt(ctx, life context.Context, o *reach.Opener) (found []reach.Found, any bool, first error) {
	j := r.predecessor.journal
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	all := &claims{cancel: cancel, missed: make([]bool, len(j.Hosts))}
	attach, causes := reach.NewDialer(r.cfg.Identity, len(j.Hosts)).Attach, make([]*link.Cause, len(j.Hosts))
	found = make([]reach.Found, len(j.Hosts))
	survey.InParallel(len(j.Hosts), func(i int) {
		site := j.Sites[j.Hosts[i].Site]
		found[i].Wanted = site.Wanted()
		found[i].Session, causes[i] = r.takeHost(ctx, life, attach, i, all, o.Adopt(j.Hosts[i].Session))
		r.predecessor.taken[i] = time.Now()
		if causes[i] != nil {
			all.miss(i)
		}
	})
	r.predecessor.settled = time.Now()
	if c := (*link.Cause)(nil); errors.As(context.Cause(ctx), &c) {
		first = c
	}
	left := map[string]bool{}
	for _, f := range found {
		if f.Session != nil {
			for _, agent := range f.Session.Opened.Left {
				left[agent] = true
			}
		}
	}
	for i, c := range causes {
		if c != nil && left[j.Hosts[i].Agent] {
			c = &link.Cause{Stage: c.Stage, Ending: true, Err: fmt.Errorf("its agent was told to end while no launcher was there: %w", c)}
		}
		if any = any || c == nil; c != nil {
			site := j.Sites[j.Hosts[i].Site]
			r.predecessor.gone[site.Name] = c
			found[i].Session = &link.Session{Addr: site.Address, Open: &apiv1.Open{}, Close: func() {},
				Opened: &apiv1.Opened{Host: &apiv1.HelloReply{Name: site.Stated}}}
		}
	}
	return found, any, first
}

const (
	takePause = 100 * time.Millisecond
	tellAlive = 3 * time.Second // how long a host is waited for that has not given the launcher before us up, without a word
)

// takeHost takes over one session: at once where its launcher was given up, else when it is.
func (r *planner) takeHost(ctx, life context.Context, attach link.Attach, host int, all *claims, open *apiv1.Open) (*link.Session, *link.Cause) {
	h := r.predecessor.journal.Hosts[host]
	at := r.predecessor.journal.Sites[h.Site].Address
	begun, told, last := time.Now(), false, (*link.Cause)(nil)
	late, stop := awake.Within(ctx, r.cfg.NodeTimeout)
	defer stop()
	for {
		s, err := attach(ctx, life, at, open)
		if err == nil {
			if s.Opened.Host.GetIncarnation() == h.Agent {
				return s, nil
			}
			s.Close()
			return nil, link.Causef(link.StageConnect, "%v: another incarnation of its agent answers", at)
		}
		c := link.AsCause(err)
		if ctx.Err() != nil {
			return nil, cmp.Or(last, c)
		}
		switch last = c; {
		case c.Stage == link.StageFenced && all.yields(host):
			all.cancel(c)
			return nil, c
		case c.Stage == link.StageFenced: // by one that will let it go
		case c.Alive:
			if !told && time.Since(begun) > tellAlive {
				told = true
				r.say("%v: it is waited for", c)
			}
		case c.Refused || c.Stranger || c.Ending || c.Stage == link.StageTLS || c.Stage == link.StageVersion || late.Err() != nil:
			return nil, c
		}
		link.Sleep(ctx, takePause)
	}
}
