package job

import "fmt"

// Absentee is a rank that is absent from a collective operation in which others wait, as their flight recorders have it
// (launcher/hang).
type Absentee struct {
	Rank int    `json:"rank"` // of the job where Own, else torch's
	Own  bool   `json:"-"`    // the job counts its ranks as torch does
	Name string `json:"name"` // "rank 2", "torch's rank 2"
	Host string `json:"host,omitempty"`
	PID  int    `json:"pid,omitempty"`
	Why  string `json:"why"` // "it has not called nccl:all_reduce number 4 of group ..."
}

// Sentence names the rank, its host and pid, and what it has not done.
func (a Absentee) Sentence() string {
	text := a.Name
	if a.Host != "" {
		text += " on " + a.Host
	}
	if a.PID > 0 {
		text += fmt.Sprintf(" (pid %d)", a.PID)
	}
	return text + " is the odd one out: " + a.Why
}
