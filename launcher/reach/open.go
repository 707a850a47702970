package reach

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/typed"
	"github.com/mpiup/mpiup/internal/wording"
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
	open := o.here()
	open.Marks = marks(o.reach.Unsent, open.Secret)
	return open
}

// here is Open for the agent in this process, which has this process's variables.
func (o *Opener) here() *apiv1.Open {
	return &apiv1.Open{
		OnLoss: o.Loss, HoldMs: uint64(o.reach.Loss.Hold.Milliseconds()), Command: o.Command,
		Protocol: apiv1.Protocol, Version: o.reach.Version,
		Session: o.Run + randomHex(8), Secret: randomBytes(16),
		Incarnation: o.reach.Incarnation, LeaseMs: uint64(o.reach.Lease.Milliseconds()),
		Namespace: o.reach.Namespace, Pod: o.reach.Pod, Launcher: o.reach.Hostname, Sandbox: o.reach.Sandbox,
		Machine: o.Wish, MeetingPorts: o.Ports, MpiPorts: o.Within,
	}
}

// marks are what agents are asked for of the variables that ranks do not get.
func marks(unsent []typed.Variable, key []byte) (list []*apiv1.Mark) {
	for _, v := range unsent[:min(len(unsent), typed.MaxMarks)] {
		m := typed.Of(v.Text, v.Secret != nil && v.Secret(), key)
		list = append(list, &apiv1.Mark{Name: m.Name, Digest: m.Digest})
	}
	return list
}

// Withheld says which variables of this process ranks on hosts lack, or have with another value, and how to hand them over: those that may
// have been set for this command, and older ones of the kinds that go along when they are. who gets them is "ranks". A line has
// 200 columns at most, and then not all names, unless all are asked for.
func Withheld(unsent []typed.Variable, found []Found, who string, all bool) (lines []string) {
	for _, since := range []bool{true, false} {
		var names, flags, on []string
		for i, v := range unsent {
			var lack []string
			for _, f := range found {
				if slices.Contains(f.Session.Opened.Lacks, uint32(i)) {
					lack = append(lack, f.Entry.Name)
				}
			}
			if v.Since != since || len(lack) == 0 {
				continue
			}
			names = append(names, v.Name())
			if typed.Plain(v.Name()) { // people paste the flags into a shell
				flags = append(flags, "-x "+v.Name())
			}
			for _, host := range lack {
				if !slices.Contains(on, host) {
					on = append(on, host)
				}
			}
		}
		if names == nil {
			continue
		}
		text := "set here, not so on %s: %s; %s keep theirs without %s"
		if since {
			text = "set in this session, not so on %s: %s; %s get them with %s"
		}
		lines = append(lines, fmt.Sprintf(text, wording.Short(on, 36), listed(names, all), who, pasted(names, flags)))
	}
	if more := len(unsent) - typed.MaxMarks; more > 0 && lines != nil {
		lines = append(lines, fmt.Sprintf("%s more of this process were not compared with the hosts'", wording.Count(more, "variable")))
	}
	return lines
}

// listed are names, all or what one line has room for.
func listed(names []string, all bool) string {
	short := wording.Short(names, 44)
	if whole := strings.Join(names, ", "); all || short == whole {
		return whole
	}
	return short + " (-v names all)"
}

// pasted are the flags for names where each has one and all are short; else what they look like.
func pasted(names, flags []string) string {
	if s := strings.Join(flags, " "); len(flags) == len(names) && len(s) <= 44 {
		return s
	}
	return "-x NAME"
}
