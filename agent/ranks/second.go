package ranks

import (
	"fmt"

	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/pmi/client"
)

// Identify finds a process of this host by its number. One that does not show is not known.
func (s *Shared) Identify(pid int) (who client.Process) {
	if start := s.Super.Began(pid); start > 0 {
		who = client.Process{PID: pid, Start: start}
	}
	return who
}

// Lives says that a process has not ended, nor is about to.
func (s *Shared) Lives(who client.Process) bool { return s.Super.Lives(who.PID, who.Start) }

// Sleeps says that a process waits for something just now.
func (s *Shared) Sleeps(who client.Process) bool { return s.Super.Sleeps(who.PID, who.Start) }

// maxSeconds bounds the ranks of a job on this host of which it is told that a second process wanted to be them.
const maxSeconds = 4

// TellSecond tells the user of a process that called MPI_Init as this rank while another one is in MPI for it, once of
// each rank.
func (p *Process) TellSecond(s client.Second) {
	st := p.Job
	st.s.Log.Info("a second process called MPI_Init as a rank", "rank", p.String(), "pid", s.Second.PID, "first", s.First.PID)
	if p.second.Swap(true) || st.seconds.Add(1) > maxSeconds {
		return
	}
	first, second := st.s.processName(s.First.PID), st.s.processName(s.Second.PID)
	st.s.Notice(true, "%s", secondSentence(p.String(), first, second))
}

// secondSentence says what happened and what to do.
func secondSentence(rank, first, second string) string {
	return fmt.Sprintf("%s is already in MPI as %s, so %s, which called MPI_Init as the same rank, got an error: what a rank starts "+
		"may call MPI_Init after the rank's MPI_Finalize, or when it is started by MPI_Comm_spawn, or by mpiup run as a job of its own",
		rank, first, second)
}

// processName is a process in words: "process 4711 (solver)".
func (s *Shared) processName(pid int) string {
	if name := visible.Line(s.Super.Name(pid)); name != "" {
		return fmt.Sprintf("process %d (%s)", pid, name)
	}
	return fmt.Sprintf("process %d", pid)
}
