package job

import (
	"fmt"
	"strings"
)

// Stack is where some ranks were before a run that hung was ended (launcher/hang).
type Stack struct {
	Ranks  string   `json:"ranks"` // of their job, "0-1,3"
	Job    int      `json:"spawned_job,omitempty"`
	Count  int      `json:"count"`         // of them
	Of     int      `json:"of"`            // ranks of the job that were looked at
	Hosts  []string `json:"hosts"`         // the first few
	PID    int      `json:"pid,omitempty"` // of one
	Means  string   `json:"means"`         // "eu-stack", "gdb", "py-spy", "eu-stack and py-spy"; "kernel": where they wait, as /proc has it
	Frames []string `json:"frames"`        // two or three, from a call that waits outwards where there is one
}

// Sentence is the ranks and where they were.
func (s Stack) Sentence() string {
	const most = 60
	who := "rank " + s.Ranks
	if s.Count > 1 {
		who = "ranks " + s.Ranks
	}
	share := fmt.Sprintf(", %d of %d", s.Count, s.Of)
	if len(who) > most {
		who, share = fmt.Sprintf("%d of %d ranks", s.Count, s.Of), ""
	}
	if s.Job != 0 {
		who += fmt.Sprintf(" of spawned job %d", s.Job)
	}
	at := strings.Join(s.Hosts, ", ")
	if s.PID > 0 {
		at += fmt.Sprintf(", pid %d", s.PID)
	}
	return fmt.Sprintf("stack of %s (%s)%s, by %s: %s", who, at, share, s.Means, strings.Join(s.Frames, ", called by "))
}
