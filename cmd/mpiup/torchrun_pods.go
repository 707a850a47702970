package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/pattern"
	"github.com/mpiup/mpiup/internal/resolve"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher"
	"github.com/mpiup/mpiup/launcher/cli"
	"github.com/mpiup/mpiup/launcher/cli/training"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/launcher/rendezvous"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// podPart is this pod's part of a job whose pods each run torchrun: they meet (launcher/rendezvous), each runs its ranks, by
// launcher.Run, and all end as the job does, or start their ranks again.
type podPart struct {
	process *process
	line    *training.Torchrun
	session *rendezvous.Session

	mu      sync.Mutex
	ranks   chan os.Signal          // signals for the ranks; nil: none run, guarded by mu
	waiting context.CancelCauseFunc // ends what is waited for while none run, guarded by mu
	asked   bool                    // somebody asked for the end, guarded by mu
}

// run takes part until the job is over, and returns its exit code.
func (m *podPart) run(cfg launcher.Config) int {
	signals, stop := m.process.passedOn(syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT, syscall.SIGTSTP)
	defer stop()
	over := make(chan struct{})
	var passing sync.WaitGroup
	passing.Go(func() { m.passSignals(signals, over) })
	defer passing.Wait()
	defer close(over)

	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	m.waiting = cancel

	for {
		part, err := m.meet(ctx, &cfg)
		if err != nil {
			return m.failed(err)
		}
		v, err := m.round(ctx, cfg, part)
		if err != nil {
			return m.failed(err)
		}
		if !v.Again {
			m.session.Close()
			return v.Code
		}
		m.tellAgain(v, part)
	}
}

// passSignals hands signals to the ranks, or ends the wait for other nodes.
func (m *podPart) passSignals(signals <-chan os.Signal, over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		case s := <-signals:
			m.signal(s.(syscall.Signal)) // as package syscall has them all
		}
	}
}

func (m *podPart) signal(s syscall.Signal) {
	ends := s == syscall.SIGINT || s == syscall.SIGTERM || s == syscall.SIGHUP
	m.mu.Lock()
	ranks, session := m.ranks, m.session
	m.asked = m.asked || ends
	m.mu.Unlock()

	switch {
	case ranks == nil && ends:
		m.waiting(reach.GotSignal(s))
	case ranks != nil:
		if s == syscall.SIGTERM { // before the ranks hear of it, whose failure may follow
			session.Leaving("its torchrun got SIGTERM")
		}
		select {
		case ranks <- s:
		default: // nobody reads them: the ranks have just ended
		}
	}
}

// meet finds the other nodes, and waits until the ranks may start.
func (m *podPart) meet(ctx context.Context, cfg *launcher.Config) (rendezvous.Begin, error) {
	for {
		if m.session == nil {
			session, err := rendezvous.Join(ctx, m.config(cfg))
			if err != nil {
				return rendezvous.Begin{}, err
			}
			m.mu.Lock()
			m.session = session
			m.mu.Unlock()
		}
		part, err := m.session.Begin(ctx)
		if !errors.Is(err, rendezvous.ErrAgain) {
			return part, err
		}
		m.session.Close()
		m.session = nil
	}
}

// config is what the command line says of the meeting.
func (m *podPart) config(cfg *launcher.Config) rendezvous.Config {
	t, p := m.line, m.process
	const rest = 30 * time.Second // for agents and launchers to end what they were told to end, and to tell of it
	patience := cfg.TermGrace + cfg.Grace + rest
	resolver := resolve.New(resolve.Config{})
	return rendezvous.Config{
		Host: t.Meets.Host, Port: t.Meets.Port, Hosts: t.Meets.Hosts, Static: t.Meets.Static,
		Hello: rendezvous.Hello{Name: clipName(p.host), RunID: []byte(t.Meets.RunID), Least: t.Least, Most: t.Nodes, Number: t.Meets.Number,
			Ranks: t.PerNode, Role: []byte(t.Meets.Role), Address: t.Meets.LocalAddr, Patience: int(patience / time.Second)},
		MaxRestarts: t.MaxRestarts, Join: t.Join, LastCall: t.LastCall,
		Identity: cfg.Identity,
		Serving: func() (*identity.Identity, error) {
			return p.identity(&cli.IdentityFlags{}, identity.RoleAgent, slog.New(slog.DiscardHandler))
		},
		Name: p.host, Lookup: resolver.Lookup, Interfaces: net.InterfaceAddrs,
		Say: m.say,
	}
}

// clipName is a host's name as the protocol carries it.
func clipName(name string) string { return name[:min(len(name), 253)] }

func (m *podPart) say(format string, args ...any) {
	tell(m.process.stderr, "torchrun (mpiup):", fmt.Sprintf(format, args...))
}

// failed says why this node takes no part, or does so no longer.
func (m *podPart) failed(err error) int {
	if m.session != nil {
		defer m.session.Abandon()
	}
	var wrong *rendezvous.Error
	var got reach.GotSignal
	switch {
	case errors.As(err, &wrong):
		m.say("%s", wrong.Text)
		if m.session != nil && m.session.Hosts() {
			m.session.Close() // the others have the same word, and hear it first
		}
		return wrong.Code
	case errors.As(err, &got):
		m.say("%v while waiting for the other nodes", got)
		return got.Status(false)
	}
	m.say("%v", err)
	return job.ExitInternal
}

// round runs this node's ranks, and waits until all nodes' have ended.
func (m *podPart) round(ctx context.Context, cfg launcher.Config, part rendezvous.Begin) (rendezvous.Verdict, error) {
	ran := m.start(cfg, part)
	ended := rendezvous.Ended{Code: ran.code, Text: ran.text, Echo: ran.echo, Final: ran.final}
	defer awake.After(5*time.Second, func() {
		if ran.code == 0 && !ran.told {
			m.say("the ranks of node %d have ended well; those of other nodes are waited for", part.Node)
		}
	})()
	v, err := m.session.Ended(ctx, ended)
	if err == nil && !v.Again && v.Code != 0 && v.Node != part.Node && v.Text != ran.said {
		m.say("%s", v.Text)
	}
	return v, err
}

// outcome is how this node's ranks have ended.
type outcome struct {
	code  int
	text  string // a sentence, where the code is not 0
	echo  bool   // they only say that they lost others
	final bool   // nothing is to start again
	told  bool   // they were ended since another node's failed
	said  string // the sentence of that, which the run has printed
}

// start runs the ranks of one round.
func (m *podPart) start(cfg launcher.Config, part rendezvous.Begin) (ran outcome) {
	cfg.Nodes, cfg.Node = part.Nodes, part.Node
	cfg.Shares = launcher.Shares{World: part.World, FirstRank: part.FirstRank, RoleWorld: part.RoleWorld, FirstRoleRank: part.FirstRoleRank}
	cfg.Apps = slices.Clone(cfg.Apps)
	for i := range cfg.Apps {
		cfg.Apps[i].Env = slices.Concat(cfg.Apps[i].Env, []string{
			"MASTER_ADDR=" + part.MasterAddr, "MASTER_PORT=" + strconv.Itoa(part.MasterPort),
			"TORCHELASTIC_RESTART_COUNT=" + strconv.Itoa(part.Restarts), "TORCHELASTIC_MAX_RESTARTS=" + strconv.Itoa(part.MaxRestarts),
		})
	}
	said := cfg.Reword
	cfg.Reword = func(sentence string) string {
		if said != nil {
			sentence = said(sentence)
		}
		return renumber(sentence, part.FirstRank)
	}
	cfg.Stopping = func(why string, code int) {
		m.session.Failing(jobwide(why, part.FirstRank), code)
	}
	cfg.Judged = func(v verdict.Verdict) {
		ran.echo = v.LostAnother()
		if len(v.Evidence) > 0 {
			ran.text = jobwide(v.Evidence[0], part.FirstRank)
		}
	}

	ranks := make(chan os.Signal, 64)
	m.mu.Lock()
	m.ranks = ranks
	m.mu.Unlock()
	ctx, cancel := context.WithCancelCause(context.Background())
	watching, stop := context.WithCancel(context.Background())
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			order, ok := m.session.Ordered(watching)
			if !ok {
				return
			}
			switch {
			case order.Leave != nil:
				m.say("%s; the ranks here have %v to end", visible.Line(order.Leave.Text), cfg.TermGrace)
				ranks <- syscall.SIGTERM
			case order.End.Again:
				ran.told = true
				cancel(nil)
			default:
				ran.told, ran.said = true, order.End.Text
				cancel(&launcher.Elsewhere{Sentence: visible.Line(order.End.Text), Code: order.End.Code})
			}
			if order.Leave == nil {
				return
			}
		}
	})

	ran.code = m.process.launchWith(ctx, cfg, ranks)
	stop()
	watch.Wait()
	cancel(nil)
	m.mu.Lock()
	m.ranks = nil
	ran.final = m.asked
	m.mu.Unlock()
	ran.final = ran.final || hopeless(ran.code)
	return ran
}

// hopeless says that each start would come to an exit code of mpiup's own.
func hopeless(code int) bool {
	return code >= job.ExitUsage && code != job.ExitInit && code != job.ExitAgentLost
}

// ofRank is how a sentence about a rank begins.
var ofRank = pattern.Of(`^(?:then: |before that: )?rank (\d+)( on \S+) `)

// renumber gives a sentence about a rank of this node's run the rank's number in the whole job, by which its RANK goes.
func renumber(sentence string, first int) string {
	at := ofRank().FindStringSubmatchIndex(sentence)
	if at == nil {
		return sentence
	}
	local, err := strconv.Atoi(sentence[at[2]:at[3]])
	if err != nil {
		return sentence
	}
	return sentence[:at[2]] + strconv.Itoa(first+local) + sentence[at[3]:]
}

// jobwide is such a sentence without the host, for one that names the node.
func jobwide(sentence string, first int) string {
	sentence = renumber(sentence, first)
	if at := ofRank().FindStringSubmatchIndex(sentence); at != nil {
		return sentence[:at[4]] + sentence[at[5]:]
	}
	return sentence
}

// tellAgain says why ranks start again.
func (m *podPart) tellAgain(v rendezvous.Verdict, part rendezvous.Begin) {
	if v.Code == 0 {
		m.say("%s; all ranks start again", visible.Line(v.Text))
		return
	}
	m.say("%s; all ranks start again (restart %d of %d)", visible.Line(v.Text), part.Restarts+1, part.MaxRestarts)
}
