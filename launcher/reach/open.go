package reach

import (
	"crypto/rand"
	"encoding/hex"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
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
func NewOpener(r *Reach) *Opener { return &Opener{reach: r, Run: randomHex(8)} }

func randomHex(n int) string { return hex.EncodeToString(randomBytes(n)) }

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
	return &apiv1.Open{
		OnLoss: o.Loss, HoldMs: uint64(o.reach.Loss.Hold.Milliseconds()), Command: o.Command,
		Protocol: apiv1.Protocol, Version: o.reach.Version,
		Session: o.Run + randomHex(8), Secret: randomBytes(16),
		Incarnation: o.reach.Incarnation, LeaseMs: uint64(o.reach.Lease.Milliseconds()),
		Namespace: o.reach.Namespace, Pod: o.reach.Pod, Launcher: o.reach.Hostname, Sandbox: o.reach.Sandbox,
		Machine: o.Wish, MeetingPorts: o.Ports, MpiPorts: o.Within,
	}
}
