package model

import (
	"net/netip"
	"strings"
	"time"

	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/layout"
)

// Wanted is a host that the run needs: how it was named and where it may be.
type Wanted struct {
	Entry hostlist.Entry
	Fixed []netip.AddrPort // known without a name: from gossip
	Local bool             // this container: the embedded agent serves if no agent runs here
	Bare  bool             // called by its address until its agent has said its name
}

// Host is a host as its agent stated itself when it was reached.
type Host struct {
	Name     string     // as the run calls it
	Stated   string     // what gethostname(2) says there; "": not said
	Version  string     // of mpiup
	Meets    netip.Addr // as the other hosts reach it; invalid: nobody knows
	Ports    []uint32   // that it reserved for ranks to meet at
	Slots    int        // that its agent counts
	CPUs     int
	Layout   *layout.Layout // nil: unknown
	NearGPUs []idset.Set    // as job.Host has them
}

// Site is a host that jobs may be placed on: of the command line, or one that a rank named.
type Site struct {
	job.Host
	Stated  string         `json:"stated,omitempty"` // host name, as its agent states it; "": not reached yet
	Local   bool           `json:"-"`                // this very host
	Address netip.AddrPort `json:"address,omitzero"` // of its agent; zero: not known
}

// Wanted is the site as a host that the run needs, for who takes the run over: not Local, since another launcher made it so.
func (s *Site) Wanted() Wanted {
	w := Wanted{Entry: hostlist.Entry{Name: s.Name, Given: s.SlotsGiven}}
	if s.SlotsGiven {
		w.Entry.Slots = s.Slots
	}
	if s.Address.IsValid() {
		w.Fixed = []netip.AddrPort{s.Address}
	}
	return w
}

// Lost is why a host was given up before its time.
type Lost struct {
	Why       string
	Since     time.Duration // Clock time from which nothing was heard of it
	Fenced    bool
	Succeeded bool // with Fenced: another launcher has the run, whose ranks go on
	Unsure    bool // its agent may live, and its ranks run until their lease ends
	Told      bool // the launcher before had told its ranks to end
	Mute      bool // nothing came from its agent, while its kernel acknowledged what was sent there
}

// Replaced is a host whose ranks another one has got.
type Replaced struct {
	Host  string `json:"host"`
	By    string `json:"by"`
	Ranks string `json:"ranks"`
}

// Came says that hosts have come, by their names.
func Came(hosts string) string {
	if strings.Contains(hosts, ", ") {
		return "hosts " + hosts + " have come"
	}
	return "host " + hosts + " has come"
}
