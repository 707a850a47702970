// Package pmix is a PMIx server in pure Go: it hosts ranks whose MPI library carries any libpmix
// from 2.1 to 7 (Open MPI 4.0 to 6.0), without libpmix on this side.
//
//	rank ──TCP──▶ ptl: handshake, frames ──▶ conn ──▶ the table of commands
//	              bfrops: the client's dialect          │
//	   REQ, GET of a job's data ────────────────────────┼──▶ jobdata   what a rank is told
//	   COMMIT, GET ─────────────────────────────────────┼──▶ modex     what ranks put
//	   FENCE, CONNECT, GROUP_CONSTRUCT ─────────────────┼──▶ kvs       fences; group: context ids
//	   PUBLISH, LOOKUP, UNPUBLISH ──────────────────────┼──▶ names
//	   NOTIFY, REGEVENTS ───────────────────────────────┼──▶ event
//	   SPAWN ───────────────────────────────────────────┼──▶ spawn     as a job.Spawn, to Config.Spawn
//	   JOB_CONTROL, ABORT, LOG ─────────────────────────┴──▶ leftover  files to remove; the rest to Hooks
//
// The rooms below know neither a connection nor the server; an error of theirs that is a status.Code is the answer.
//
// A rank may connect several times, one after the other (MPI sessions, several programs of a
// script) and at once (a second libpmix in the process). The first is its main connection, and
// how that ends is how the rank ends; those that the same process makes while it runs are served
// alike, and their ends mean nothing. Another process is refused until then (package client):
// whatever it asks, it gets nothing.
//
//	         handshake                  FINALIZE on the main one
//	absent ─────────────▶ running ─────────────────────────────────▶ finalized
//	                        │  ▲                                         │
//	     ErrUnfinished  ◀───┘  └───────────────── handshake ─────────────┘
//	     the main one hangs up
//
// Concurrency: a goroutine per connection reads requests and answers most of them; those that
// wait (FENCE, GET, LOOKUP, CONNECT, groups) have a goroutine each, bounded per connection. Run
// waits for all. Methods of Server may be called from any goroutine; hooks run in the
// connection's and must not block. What connections share is in host.go. Each part of it
// and each room has a lock of its own, under which only the engine is asked.
//
// The server knows all jobs of a run (Add), since ranks of one may connect to those of another:
// what a request names is (namespace, rank), which party.go resolves. Outside, a process has an
// id, base of its job + rank.
//
// The package starts no process and makes no listener, and ends no rank: its caller does.
// Fabrics, allocation and credentials are answered as not supported.
package pmix

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/pmi/client"
	"github.com/mpiup/mpiup/pmi/loopback"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
	"github.com/mpiup/mpiup/pmi/pmix/event"
	"github.com/mpiup/mpiup/pmi/pmix/modex"
)

// Server serves this host's ranks of the jobs of one run.
type Server struct{ *host }

// New returns a server that starts nothing and has no jobs yet.
func New(cfg Config) (*Server, error) {
	if host, _, err := net.SplitHostPort(cfg.Address); err != nil || strings.Contains(host, ":") {
		return nil, fmt.Errorf("%q is no address of a PMIx server: an IPv4 address and a port", cfg.Address)
	}
	s := &Server{newHost(cfg)}
	cfg.Engine.OnGone(s.gone)
	return s, nil
}

// gone wakes who waits for what only a process that is gone could have committed.
func (s *Server) gone(id int, _ string) {
	if ns := s.jobs.of(id); ns != nil {
		ns.puts.Gone(id - ns.span.Base)
	}
}

// Run accepts and serves connections until ctx ends (its cause) or the listener fails. It closes
// the listener, and waits for everything it started.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	defer s.end()
	return loopback.New(loopback.Config{Name: "PMIx", Check: s.cfg.Check, Admit: s.receive, Log: s.log}).Run(ctx, l)
}

// receive reads who connects. What is answered, and the caller told, is for the function that it returns.
func (s *Server) receive(nc net.Conn, who client.Process) (serve func(context.Context), err error) {
	c, why, err := s.admit(nc)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		if busy := s.presence.excludes(c.id(), who, s.cfg.Lives); busy != nil { // whatever it speaks: it is not the rank's
			s.refuse(ctx, c, who, busy)
			return
		}
		c.talk = s.talks.Begin(c.id(), nc)
		defer c.talk.End()
		if why != "" {
			s.turnAway(c, bfrops.ErrNotSupported, why)
			return
		}
		var busy *busyError
		switch err := s.enter(c, who); {
		case errors.As(err, &busy): // they came at the same time
			c.talk.End()
			s.refuse(ctx, c, who, busy)
		case err != nil:
			s.turnAway(c, bfrops.ErrOutOfResource, err.Error())
		default:
			c.run(ctx)
		}
	}, nil
}

// refuse tells of a process that is not to be the rank, and answers whatever it asks by nothing, which libpmix takes for
// the loss of its server: its PMIx_Init fails, which asks for the job's data first (REQ). The handshake itself has to
// succeed: a libpmix from 4.1 on whose handshake fails goes on alone under the rank's name, so that MPI_Init succeeds,
// and Open MPI maps the shared memory of the rank; and one that is hung up on may wait for ever (openpmix
// src/client/pmix_client.c). How many such connections a rank has is bounded, and not for how long: nobody knows how
// slow its host is.
func (s *Server) refuse(ctx context.Context, c *conn, who client.Process, busy *busyError) {
	if f := s.cfg.Hooks.OnSecond; f != nil {
		f(client.Second{Rank: c.id(), First: busy.first, Second: who})
	}
	if busy.leave != nil {
		defer busy.leave()
	}
	if err := c.welcome(); err != nil || busy.leave == nil {
		return
	}
	for ctx.Err() == nil {
		f, err := bfrops.ReadFrame(c.nc)
		if err != nil {
			return
		}
		if f.Tag == bfrops.TagHeartbeat {
			continue
		}
		if _, err := c.nc.Write(bfrops.AppendHeader(nil, f.Tag, 0)); err != nil {
			return
		}
	}
}

// turnAway answers a rank that cannot be served, and tells the caller.
func (s *Server) turnAway(c *conn, st bfrops.Code, why string) {
	if _, err := c.nc.Write(bfrops.AppendAnswer(nil, int32(st), 0)); err != nil { // it is hung up on either way
		s.log.Debug("PMIx: a rank that is turned away is not told why", "id", c.id(), "cause", err)
	}
	s.failed(c.id(), &RefusedError{c.id(), c.version, why})
}

// Settle returns when what a process (id) that has ended said before has been read and seen to, or ctx has ended: it may have finalized.
func (s *Server) Settle(ctx context.Context, id int) { s.talks.Settle(ctx, id) }

// Add makes a job known, before its ranks start. Jobs without a rank here are added as well, so
// that ranks here can connect to them. It fails on a job that no launcher would send.
func (s *Server) Add(j Job) error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	ns, err := newNamespace(j, s.cfg.Machine, s.log)
	if err != nil {
		return err
	}
	if err := s.jobs.add(ns, j.SpawnedBy); err != nil {
		return err
	}
	if ns.Here >= 0 && j.Surely { // it grows with the ranks of all hosts: nobody makes it for programs that do not ask
		s.start(func() { ns.told.packed(toldAs{dialect: bfrops.Canonical()}) }) // before the first rank asks
	}
	return nil
}

// Environment is what a rank of a job that was added needs in order to find and understand the server; see jobdata.
func (s *Server) Environment(job, rank int) []string {
	ns := s.jobs.numbered(job)
	if ns == nil {
		return nil
	}
	return ns.Environment(s.cfg.Machine, rank)
}

// JobOver is told of a job of which no process is left on any host: what it held is let go. mute says
// that none of its processes ever connected.
func (s *Server) JobOver(number int, mute bool) {
	ns, by := s.jobs.end(number, mute)
	if ns == nil {
		return
	}
	s.withGroups(func(g *modex.Groups) { g.Over(ns.span.IDs()) })
	s.start(func() {
		if by != nil && mute {
			s.callForJob(s.ctx, by)
		}
		for _, r := range ns.HereRanks() {
			if s.names.Ended(s.ctx, ns.process(r)) != nil {
				break // the run ends
			}
		}
		if err := s.leftovers.RemoveOf(number); err != nil {
			s.log.Info("what ranks asked to be removed", "job", number, "cause", err)
		}
	})
}

// Cleanup removes what ranks of this host registered, below the session directory and /dev/shm
// only, through no link, and nothing of another user's than the rank's. It is for after the last of them has ended.
func (s *Server) Cleanup() error { return s.leftovers.RemoveAll() }

// Aborted is told of processes, by id, that another process has ended: barriers with them are
// answered with PMIX_ERR_PROC_REQUESTED_ABORT, and are nobody's failure.
func (s *Server) Aborted(ids idset.Set) {
	s.abort(ids)
	for _, ns := range s.jobs.inOrder() {
		for id := range ids.Intersect(ns.span.IDs()).All() {
			ns.space.RankGone(id-ns.span.Base, "was ended by another process")
		}
	}
}

// Notify gives an event to this host's ranks that asked for its code. It does not block: a client
// that does not read its events loses them.
func (s *Server) Notify(e event.Event) { s.events.Notify(e, nil) }

// RankEvent is an event about one of the run's processes; false if no job that was added has it.
func (s *Server) RankEvent(code, id int) (event.Event, bool) {
	ns := s.jobs.of(id)
	if ns == nil {
		return event.Event{}, false
	}
	return event.OfProcess(code, ns.Proc(id-ns.span.Base)), true
}

// HostEvents tell that processes (ids) went with their hosts, of each job and host. Processes that no job has are left
// out; at most event.MaxTold are told of.
func (s *Server) HostEvents(ids idset.Set) (events []event.Event) {
	told := 0
	for _, ns := range s.jobs.inOrder() {
		for h, host := range ns.Hosts {
			var gone []bfrops.Proc
			for _, rank := range host.Ranks {
				if told < event.MaxTold && ids.Contains(ns.span.Base+rank) {
					gone = append(gone, ns.Proc(rank))
					told++
				}
			}
			if len(gone) > 0 {
				events = append(events, event.OfHost(host.Name, h, gone)...)
			}
		}
	}
	return events
}

var errStranger = errors.New("it does not know a PMIx namespace of this run")

// admit reads the handshake, in the time that the lobby gives. A stranger is an error, and gets no answer; a rank
// that cannot be served gets a status for why.
func (s *Server) admit(nc net.Conn) (c *conn, why string, err error) {
	h, err := bfrops.ReadHello(nc)
	if err != nil {
		return nil, "", err
	}
	if h.Kind != 0 {
		return nil, "", fmt.Errorf("a PMIx tool or singleton (kind %d), which are not served", h.Kind)
	}
	ns := s.jobs.called(h.Namespace)
	if ns == nil || s.jobs.isOver(ns) {
		return nil, "", errStranger
	}
	number := int(h.Rank)
	if !ns.IsHere(number) {
		return nil, "", fmt.Errorf("rank %d of job %d is not on this host", h.Rank, ns.number)
	}
	c = &conn{
		host:    s.host,
		find:    s.findCommand,
		nc:      nc,
		ns:      ns,
		rank:    number,
		desc:    h.Buffer == bfrops.FullyDesc,
		version: h.Version,
		turn:    make(chan struct{}, 1),
		write:   make(chan struct{}, 1),
	}
	c.dialect, why = choose(h)
	return c, why, nil
}

// choose finds the dialect of a client, or says why it cannot be served.
func choose(h bfrops.Hello) (*bfrops.Dialect, string) {
	d, err := bfrops.Find(h.Codec)
	switch {
	case err != nil:
		return nil, err.Error() + "; use Open MPI 4.0 or later, or start the program with --mpi pmi2 if its library speaks that"
	case h.Buffer != bfrops.NonDesc && h.Buffer != bfrops.FullyDesc:
		return nil, fmt.Sprintf("its buffers are of kind %d; unset PMIX_MCA_bfrops_base_default_type", h.Buffer)
	case h.Store != "hash":
		return nil, fmt.Sprintf("it keeps job data in the store %.20q, whose layout is private to libpmix; unset "+
			"PMIX_MCA_gds and PMIX_GDS_MODULE, so that it uses \"hash\"", h.Store)
	case h.Security != "native" && h.Security != "none":
		return nil, fmt.Sprintf("it wants the security module %.20q; unset PMIX_MCA_psec, so that it uses \"native\"", h.Security)
	}
	return d, ""
}

// enter counts a connection that passed the handshake, as presence.enter does.
func (s *Server) enter(c *conn, who client.Process) error {
	visit, main, err := s.presence.enter(c.id(), who, s.cfg.Lives)
	if err != nil {
		return err
	}
	c.visit = visit
	c.events = s.events.Listen(c.proc())
	if main {
		c.ns.space.RankBack(c.rank)
		if f := s.cfg.Hooks.OnInit; f != nil {
			f(c.id(), who)
		}
	}
	return nil
}
