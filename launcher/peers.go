package launcher

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/quorum"
)

// PeersConfig is one look at the job's agents. Hosts that nobody named come from the same
// sources as a run's, and all from gossip too, as far as an agent that answers knows them.
type PeersConfig struct {
	Reach
	JSON bool
}

// peerRow is one agent, or one host without.
type peerRow struct {
	Host        string  `json:"host"`
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
	Since     time.Time `json:"since"`
	Command   bool      `json:"command,omitempty"` // mpiup exec or ssh, which takes no slot
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
	return fmt.Sprintf("%s, by %s, since %s", what, u.Launcher, u.Since.UTC().Format(time.RFC3339))
}

// setUses puts into a row what its agent says it runs.
func (p *peerRow) setUses(list []*apiv1.Use) {
	const most = 32
	for _, m := range list[:min(len(list), most)] {
		u := use{Launcher: m.Launcher, Program: m.Program, Processes: int(m.Procs), Since: time.Unix(0, m.SinceNs), Command: m.Exec}
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
}

// Peers prints the job's agents and returns an exit code: 0 when every named host answered.
func Peers(ctx context.Context, cfg PeersConfig) int {
	cfg.fill()
	set, err := cfg.others(ctx)
	if err != nil {
		return cfg.end(err)
	}
	found, members := cfg.members(ctx, set.Hosts)
	named := len(found)
	found = append(found, cfg.visit(ctx, unvisited(found, members), nil)...)
	view := peersView{Scope: cfg.Identity.Scope(), ScopeFrom: cfg.Identity.ScopeFrom(), KeyFrom: cfg.Identity.KeyFrom(),
		Job: cfg.Identity.JobID(), HostsFrom: set.From, Peers: rows(found, members)}
	if err := view.print(cfg.Stdout, cfg.JSON); err != nil {
		return cfg.end(failf(job.ExitOutput, "standard output: %v", err))
	}
	causes := make([]*cause, named)
	nobody := !slices.ContainsFunc(found, func(v visited) bool { return v.hello != nil })
	for i, v := range found[:named] {
		if nobody || !v.Bare { // a pod of the service need not have an agent
			causes[i] = v.cause
		}
	}
	if c := telling(causes); c != nil {
		return c.stage.exitCode()
	}
	return 0
}

// members asks hosts whom they know by gossip: views of agents that have just met differ. The
// members are by incarnation; one that anybody knows alive is.
func (r *Reach) members(ctx context.Context, hosts []hosts.Wanted) (found []visited, members map[string]*apiv1.Peer) {
	var mu sync.Mutex
	members = map[string]*apiv1.Peer{}
	found = r.visit(ctx, hosts, func(ctx context.Context, _ *visited, c *agentConn) error {
		reply, err := c.client.Peers(ctx, &apiv1.PeersRequest{})
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for _, p := range plausible(reply).Peers {
			if old := members[p.Incarnation]; old == nil || p.State == "alive" {
				members[p.Incarnation] = p
			}
		}
		return nil
	})
	return found, members
}

// others are the hosts to ask about when no run is meant: those of the sources, but never
// this process itself.
func (r *Reach) others(ctx context.Context) (*hosts.Set, error) {
	if r.Identity == nil {
		if r.NoIdentity != nil {
			return nil, withoutSecret(r.NoIdentity.Error())
		}
		return nil, failf(job.ExitTLS, "there is no secret: mount it, or name it with --key")
	}
	set, err := r.Static()
	if err != nil {
		return nil, failf(job.ExitUsage, "%v", err)
	}
	if n, why := r.Count(); set == nil && n > 0 && r.Sources.Pod {
		ctx, cancel := context.WithTimeout(ctx, r.Wait)
		defer cancel()
		r.need = quorum.Of(n, why, 0, 0)
		return r.meet(ctx)
	}
	if set == nil {
		set = newMeeting(r).look(ctx)
	}
	if set == nil || len(set.Hosts) == 0 {
		return nil, failf(job.ExitHosts, "no hosts are known and no agent runs here: name them with --host or --hostfile")
	}
	return set, nil
}

// unvisited are members that gossip knows and no visit has reached.
func unvisited(found []visited, members map[string]*apiv1.Peer) []hosts.Wanted {
	seen := map[string]bool{}
	for _, v := range found {
		seen[v.hello.GetIncarnation()] = true
	}
	reply := &apiv1.PeersReply{}
	for inc, p := range members {
		if !seen[inc] {
			reply.Peers = append(reply.Peers, p)
		}
	}
	if set := memberHosts(reply); set != nil {
		return set.Hosts
	}
	return nil
}

func rows(found []visited, members map[string]*apiv1.Peer) []peerRow {
	var out []peerRow
	for _, v := range found {
		row := peerRow{Host: v.Entry.Name}
		if v.hello == nil {
			row.State, row.Error = "unreachable", v.cause.Error()
			if len(v.Fixed) > 0 {
				row.Address = v.Fixed[0].String()
				if suspected(members, row.Address) {
					row.State = "suspect"
				}
			}
			out = append(out, row)
			continue
		}
		if v.Bare && v.hello.Name != "" {
			row.Host = v.hello.Name
		}
		row.Address, row.Incarnation, row.State = v.addr.String(), v.hello.Incarnation, "alive"
		row.Slots, row.Version, row.Protocol = int(v.hello.Slots), v.hello.Version, v.hello.Protocol
		row.setUses(v.hello.Uses)
		row.RTT = float64(v.rtt.Microseconds()) / 1000
		if m := members[v.hello.Incarnation]; m != nil {
			row.State = m.State
		}
		if v.cause != nil {
			row.Error = v.cause.Error()
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

func (v peersView) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return printJSON(w, v)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "scope %s (%s), key %s, hosts from %s\n", v.Scope, v.ScopeFrom, v.KeyFrom, v.HostsFrom)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "HOST\tADDRESS\tINCARNATION\tSTATE\tUSED/SLOTS\tVERSION\tRTT")
	for _, p := range v.Peers {
		if p.Version == "" {
			fmt.Fprintf(t, "%s\t%s\t-\t%s\t-\t-\t-\n", p.Host, dash(p.Address), p.State)
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%.8s\t%s\t%d/%d\t%s/%d\t%v\n", p.Host, p.Address, p.Incarnation, p.State, p.Used, p.Slots, p.Version, p.Protocol,
			(time.Duration(p.RTT * float64(time.Millisecond))).Round(10*time.Microsecond))
	}
	t.Flush()
	for _, p := range v.Peers {
		for _, u := range p.Runs {
			fmt.Fprintf(&b, "%s runs %v\n", p.Host, u)
		}
	}
	for _, p := range v.Peers {
		if p.Error != "" {
			fmt.Fprintf(&b, "%s: %s\n", p.Host, p.Error)
		}
	}
	_, err := io.WriteString(w, visible.Text(b.String()))
	return err
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// printJSON prints v in JSON that a terminal shows as it is.
func printJSON(w io.Writer, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		_, err = io.WriteString(w, visible.Text(string(text))+"\n")
	}
	return err
}
