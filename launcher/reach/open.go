package reach

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/typed"
	"github.com/mpiup/mpiup/internal/visible"
)

// Opener makes the Open frames of one run. Each session has an id of its own, though all
// begin alike: descendants are found by it, and two agents may see one /proc.
type Opener struct {
	reach *Reach
	Run   string // 16 hex digits
	Wish  apiv1.MachineWish
	// What is reserved for ranks to meet at, before it is known where rank 0 will be.
	Ports  uint32
	Within string // a range of ports; "": any
	// Loss is LOSS_NOTHING for what is no run.
	Loss    apiv1.Loss
	Command []byte // with LOSS_HOLD: what this launcher runs, as Hold.command has it
}

// NewOpener is that of a new run.
func NewOpener(r *Reach) *Opener { return &Opener{reach: r, Run: RandomHex(8)} }

// RandomHex is n random bytes in hex.
func RandomHex(n int) string { return hex.EncodeToString(randomBytes(n)) }

func randomBytes(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) // never fails (crypto/rand)
	return b
}

// Adopt is the first frame to a session of a launcher that is lost, of the run that the Opener goes on with.
func (o *Opener) Adopt(session string) *apiv1.Open {
	open := o.Open()
	open.Session, open.Adopt, open.MeetingPorts = session, true, 0
	return open
}

// Open is the first frame of a new session.
func (o *Opener) Open() *apiv1.Open {
	open := o.here()
	for _, v := range o.reach.Unsent[:min(len(o.reach.Unsent), typed.MaxMarks)] { // of the variables that ranks do not get
		m := typed.Of(v.Text, v.Presence || v.Secret != nil && v.Secret(), open.Secret)
		open.Marks = append(open.Marks, &apiv1.Mark{Name: m.Name, Digest: m.Digest})
	}
	return open
}

// here is Open for the agent in this process, which has this process's variables.
func (o *Opener) here() *apiv1.Open {
	return &apiv1.Open{
		OnLoss: o.Loss, HoldMs: uint64(o.reach.Loss.Hold.Milliseconds()), Command: o.Command,
		Protocol: apiv1.Protocol, Version: o.reach.Version,
		Session: o.Run + RandomHex(8), Secret: randomBytes(16),
		Incarnation: o.reach.Incarnation, LeaseMs: uint64(o.reach.Lease.Milliseconds()),
		Namespace: o.reach.Namespace, Pod: o.reach.Pod, Launcher: o.reach.Hostname, Sandbox: o.reach.Sandbox,
		Machine: o.Wish, MeetingPorts: o.Ports, MpiPorts: o.Within,
	}
}

// Withheld says which variables of this process ranks on hosts lack, or have with another value, and how to hand them over: those that may
// have been set for this command, older ones of the kinds that go along when they are, and those of this container's manifest (typed.Lack).
func Withheld(unsent []typed.Variable, found []Found, who string, all bool) (lines []string) {
	for _, since := range []bool{true, false} {
		var names, on []string
		for i, v := range unsent {
			if v.Since != since {
				continue
			}
			lacking := false
			for _, f := range found {
				if slices.Contains(f.Session.Opened.Lacks, uint32(i)) {
					lacking = true
					if !slices.Contains(on, f.Entry.Name) {
						on = append(on, f.Entry.Name)
					}
				}
			}
			if lacking {
				names = append(names, v.Name())
			}
		}
		if names != nil {
			lines = append(lines, typed.Lack{Since: since, Names: names, Hosts: on, Who: who}.Line(all))
		}
	}
	if more := len(unsent) - typed.MaxMarks; more > 0 {
		lines = append(lines, fmt.Sprintf("%s more of this process were not compared with the hosts'", visible.Count(more, "variable")))
	}
	return lines
}
