// Package pmi is the PMI-1 and PMI-2 server of one job's ranks on one host. Each is answered in
// whichever of the two its MPI library speaks.
//
//	         init              finalize
//	fresh ─────────▶ running ────────────▶ finalized
//	  │                │ ▲                     │  │
//	  │ EOF: fine      │ └─────── init ────────┘  │ EOF: fine
//	  ▼                │ EOF: *UnfinishedError    ▼
//	 end               └─────────▶ end           end
//
// Both dialects begin with the same line, cmd=init, whose pmi_version decides; PMI-1 goes on
// with lines, PMI-2 with counted messages. Each message is a row of one table (messages.go)
// with its two spellings and one handler. PMI-1 is answered as 1.2, which has
// barriers of groups, or as 1.1 (Job.PlainBarriers).
//
// One process at a time is in MPI for a rank (package client). Another one that says init meanwhile is refused, and so is
// all that it says later (second.go).
//
// Serve blocks in the calling goroutine, which is one per rank; a rank that waits for a fence, a
// node attribute or a spawn blocks only itself. A barrier of PMI-1 has a goroutine that Serve waits
// for. A Server serves all its ranks at once. Hooks run in the rank's goroutine.
//
// The package starts no process, makes no listener and does not end a rank: its caller does,
// with the error that Serve returns.
package pmi

import (
	"context"
	"log/slog"
	"net"
)

// New returns a server that starts nothing.
func New(job Job) *Server {
	if job.Log == nil {
		job.Log = slog.New(slog.DiscardHandler)
	}
	if job.AppNum == nil {
		job.AppNum = func(int) int { return 0 }
	}
	return &Server{job: job, ring: newRing(), latest: map[int]*presence{}}
}

// Serve answers rank until its connection ends (nil; *UnfinishedError between init and finalize), it
// aborts (nil), ctx ends (its cause), or the job cannot go on: *ProtocolError, *kvs.GoneError when it
// waits for a rank that is gone, or what the engine says. The caller owns conn and closes it afterwards.
func (s *Server) Serve(ctx context.Context, conn net.Conn, rank int) error {
	return s.Meet(conn, rank)(ctx)
}

// Meet is Serve in two steps: from Meet on, Settle waits for what the rank says over conn. serve must be called.
func (s *Server) Meet(conn net.Conn, rank int) (serve func(context.Context) error) {
	talk := s.talks.Begin(rank, conn)
	return func(ctx context.Context) error {
		defer talk.End()
		stop := context.AfterFunc(ctx, func() { conn.SetDeadline(longAgo) })
		defer stop()
		err := newSession(s, conn, rank, talk, find).run(ctx)
		if ctx.Err() != nil && err != nil {
			return context.Cause(ctx)
		}
		return err
	}
}

// Settle returns when what a rank that has ended said before has been read and seen to, or ctx has ended: it may have finalized.
func (s *Server) Settle(ctx context.Context, rank int) { s.talks.Settle(ctx, rank) }
