// Package peers speaks to a job's agents outside of any run: it shows them, what their ranks do, and ends them.
//
//	the sources' hosts ─Others─▶ visit each ─▶ a row: slots, who runs what, round trip     (launcher/reach finds and asks)
//	gossip of those that answer ─Members─▶ visit those too
//
// Concurrency: Peers and Shutdown block until all they started has ended.
//
// The package waits for nobody to appear, and asks no agent to start anything.
package peers

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/link"
	"github.com/mpiup/mpiup/launcher/reach"
)

// Config is one look at the job's agents. Hosts that nobody named come from the same
// sources as a run's, and all from gossip too, as far as an agent that answers knows them.
type Config struct {
	reach.Reach
	JSON     bool
	Discover bool // prints HOST:SLOTS of those that are there, and nothing else, for elastic launchers
}

// peerRow is one agent, or one host without.
type peerRow struct {
	Host        string  `json:"host"`
	Name        string  `json:"name,omitempty"` // what the agent calls a host of which only the address is known
	Address     string  `json:"address,omitempty"`
	Incarnation string  `json:"incarnation,omitempty"`
	State       string  `json:"state"` // alive, suspect, left; unreachable, of which gossip suspects nothing
	Slots       int     `json:"slots,omitempty"`
	Used        int     `json:"used"` // slots that ranks have
	Runs        []use   `json:"runs,omitempty"`
	Version     string  `json:"version,omitempty"`
	Protocol    uint32  `json:"protocol,omitempty"`
	RTT         float64 `json:"rtt_ms,omitempty"`
	Error       string  `json:"error,omitempty"`
}

// use is what one launcher runs on a host.
type use struct {
	Launcher  string    `json:"launcher"`
	Program   string    `json:"program"`
	Processes int       `json:"processes"`
	Since     time.Time `json:"since,omitzero"`    // zero: a run on this machine, which does not tell
	Command   bool      `json:"command,omitempty"` // mpiup exec or ssh, which takes no slot
	Held      int       `json:"held_s,omitempty"`  // its launcher is lost: so many seconds more its ranks wait for another
}

// String is the use as a line of the table.
func (u use) String() string {
	what := fmt.Sprintf("%d ranks of %s", u.Processes, u.Program)
	switch {
	case u.Command:
		what = "command " + u.Program
	case u.Processes == 1:
		what = "1 rank of " + u.Program
	}
	if u.Since.IsZero() {
		return fmt.Sprintf("%s, by %s, a run on this machine (mpiup ps shows its ranks)", what, u.Launcher)
	}
	held := ""
	if u.Held > 0 {
		held = fmt.Sprintf("; held: that launcher is lost, and the ranks wait %v for another", time.Duration(u.Held)*time.Second)
	}
	return fmt.Sprintf("%s, by %s, since %s%s", what, u.Launcher, u.Since.UTC().Format(time.RFC3339), held)
}

// setUses puts into a row what its agent says it runs.
func (p *peerRow) setUses(list []*apiv1.Use) {
	const most = 32
	for _, m := range list[:min(len(list), most)] {
		u := use{Launcher: m.Launcher, Program: m.Program, Processes: int(m.Procs), Since: time.Unix(0, m.SinceNs), Command: m.Exec, Held: int(m.HeldS)}
		p.Runs = append(p.Runs, u)
		if !u.Command {
			p.Used += u.Processes
		}
	}
}

// peersView is what is printed.
type peersView struct {
	Scope     string    `json:"scope"`
	ScopeFrom string    `json:"scope_from"`
	KeyFrom   string    `json:"key_from"`
	Job       string    `json:"job"`
	HostsFrom string    `json:"hosts_from"`
	Peers     []peerRow `json:"peers"`
	Here      []use     `json:"here,omitempty"` // this user's runs on this machine, which have no agents

	pod  string            // this machine
	told map[string]string // why such a run told nothing
}

// Peers prints the job's agents and returns an exit code: 0 when every named host answered.
func Peers(ctx context.Context, cfg Config) int {
	cfg.Fill()
	set, err := cfg.Others(ctx)
	view := peersView{Peers: []peerRow{}, pod: cfg.Pod, told: map[string]string{}}
	if !cfg.Discover { // whose script wants hosts alone
		var near []told
		near, err = (&circle{reach: &cfg.Reach, none: err}).nearby(ctx, &apiv1.RanksRequest{}, view.told)
		for _, t := range near {
			view.here(t)
		}
	}
	if err != nil {
		return launcher.End(&cfg.Reach, err)
	}
	if set == nil {
		if err := view.print(cfg.Stdout, cfg.JSON, false); err != nil {
			return launcher.End(&cfg.Reach, reach.Unwritten(err))
		}
		return 0
	}
	found, members := cfg.Members(ctx, set.Hosts)
	named := len(found)
	if !cfg.Discover || cfg.Sources.Entries == nil { // else only those that a user names
		found = append(found, cfg.Visit(ctx, reach.Unvisited(found, members), nil)...)
	}
	if cfg.Discover {
		return discovered(ctx, cfg, found)
	}
	view.Scope, view.ScopeFrom = cfg.Identity.Scope(), cfg.Identity.ScopeFrom()
	view.KeyFrom, view.HostsFrom = visible.UTF8(cfg.Identity.KeyFrom()), visible.UTF8(set.From) // files, for JSON
	view.Job, view.Peers = cfg.Identity.JobID(), rows(found, members)
	if err := view.print(cfg.Stdout, cfg.JSON, cfg.Log.Enabled(ctx, slog.LevelInfo)); err != nil {
		return launcher.End(&cfg.Reach, reach.Unwritten(err))
	}
	_, code := troubles(found[:named])
	return code
}

// here takes what a run on this machine tells of its ranks.
func (v *peersView) here(t told) {
	for _, r := range t.rows() {
		i := slices.IndexFunc(v.Here, func(u use) bool { return u.Launcher == r.Launcher && u.Program == r.Program })
		if i < 0 {
			i, v.Here = len(v.Here), append(v.Here, use{Launcher: r.Launcher, Program: r.Program})
		}
		v.Here[i].Processes++
	}
}

// discovered prints the hosts that are there, as ssh reaches them. One that does not answer in time is asked twice: an agent that is slow
// once would take its host's workers out of the job.
func discovered(ctx context.Context, cfg Config, found []reach.Visited) int {
	var silent []hosts.Wanted
	for _, v := range found {
		if v.Hello == nil && !(v.Cause != nil && v.Cause.Refused) {
			silent = append(silent, v.Wanted)
		}
	}
	var b strings.Builder
	for _, v := range append(found, cfg.Visit(ctx, silent, nil)...) {
		if v.Hello == nil {
			continue
		}
		slots, name := link.Slots(v.Hello), v.Entry.Name
		if v.Entry.Given {
			slots = v.Entry.Slots
		}
		if a := v.Addr.Addr().Unmap(); a.Is4() && (v.Bare || len(v.Fixed) > 0) { // no name that anybody gave it
			name = a.String()
		}
		fmt.Fprintf(&b, "%s:%d\n", name, slots)
	}
	if _, err := visible.Fprint(cfg.Stdout, b.String()); err != nil {
		return launcher.End(&cfg.Reach, reach.Unwritten(err))
	}
	return 0
}

func rows(found []reach.Visited, members map[string]*apiv1.Peer) []peerRow {
	var out []peerRow
	for _, v := range found {
		row := peerRow{Host: nameOf(&v)}
		if v.Cause != nil {
			row.Error = v.Cause.Error()
		}
		if v.Hello == nil {
			row.State = "unreachable"
			if len(v.Fixed) > 0 {
				row.Address = v.Fixed[0].String()
				if suspected(members, row.Address) {
					row.State = "suspect"
				}
			}
			out = append(out, row)
			continue
		}
		row.Address, row.Incarnation, row.State = v.Addr.String(), v.Hello.Incarnation, "alive"
		if _, err := netip.ParseAddr(row.Host); err == nil {
			row.Name = v.Hello.Name
		}
		row.Slots, row.Version, row.Protocol = int(v.Hello.Slots), v.Hello.Version, v.Hello.Protocol
		row.setUses(v.Hello.Uses)
		row.RTT = float64(v.Rtt.Microseconds()) / 1000
		if m := members[v.Hello.Incarnation]; m != nil {
			row.State = m.State
		}
		out = append(out, row)
	}
	slices.SortStableFunc(out, func(a, b peerRow) int { return hosts.CompareNames(a.Host, b.Host) })
	return out
}

// suspected says that gossip has a suspicion of whoever is at addr.
func suspected(members map[string]*apiv1.Peer, addr string) bool {
	for _, m := range members {
		if m.Address == addr && m.State == "suspect" {
			return true
		}
	}
	return false
}

func (v peersView) print(w io.Writer, asJSON, all bool) error {
	if asJSON {
		return visible.JSON(w, v)
	}
	var b strings.Builder
	from := ""
	if v.ScopeFrom != v.Scope {
		from = " (" + v.ScopeFrom + ")"
	}
	for _, u := range v.Here {
		fmt.Fprintf(&b, "%s runs %v\n", v.pod, u)
	}
	writeErrors(&b, v.told)
	if v.HostsFrom == "" {
		b.WriteString("no hosts were asked: name them, and the key that their agents have: mpiup peers --key FILE --host w0,w1 (or MPIUP_KEY and MPIUP_HOSTS)\n")
		_, err := io.WriteString(w, visible.Text(b.String()))
		return err
	}
	fmt.Fprintf(&b, "scope %s%s, key %s, hosts from %s\n", v.Scope, from, v.KeyFrom, v.HostsFrom)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(host, address, incarnation string, others ...any) {
		if fmt.Fprintf(t, "%s\t%s\t", host, address); all {
			fmt.Fprintf(t, "%s\t", incarnation)
		}
		fmt.Fprintf(t, "%v\t%v\t%v\t%v\n", others...)
	}
	row("HOST", "ADDRESS", "INCARNATION", "STATE", "USED/SLOTS", "VERSION", "RTT")
	for _, p := range v.Peers {
		if p.Version == "" {
			row(p.Host, cmp.Or(p.Address, "-"), "-", p.State, "-", "-", "-")
			continue
		}
		row(cmp.Or(p.Name, p.Host), p.Address, fmt.Sprintf("%.8s", p.Incarnation), p.State, fmt.Sprintf("%d/%d", p.Used, p.Slots),
			fmt.Sprintf("%s/%d", p.Version, p.Protocol),
			(time.Duration(p.RTT * float64(time.Millisecond))).Round(10*time.Microsecond))
	}
	t.Flush()
	for _, p := range v.Peers {
		for _, u := range p.Runs {
			fmt.Fprintf(&b, "%s runs %v\n", cmp.Or(p.Name, p.Host), u)
		}
	}
	var names, texts []string
	for _, p := range v.Peers {
		if p.Error != "" {
			names, texts = append(names, p.Host), append(texts, p.Error)
		}
	}
	for _, line := range hostlist.Together("host", names, texts) {
		b.WriteString(line + "\n")
	}
	_, err := io.WriteString(w, visible.Text(b.String()))
	return err
}
