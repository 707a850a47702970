package reach

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/link"
)

// Find is the job's hosts, from the first source that knows any: those of the environment, then, in a pod with a secret, this pod's
// headless service and an agent's view of the membership, which are waited for (meet.go). Where it was asked for, or where there is no
// secret and nothing says that there are several hosts, it is this container alone: a pod of a job does not become that by itself.
func (r *Reach) Find(ctx context.Context) (*hosts.Set, error) {
	switch {
	case r.Known != nil:
		return r.Known, nil
	case r.Local:
		return r.Alone()
	}
	if err := r.Readable(); err != nil {
		return nil, Failf(job.ExitUsage, "%v", err)
	}
	set, err := r.Static()
	if err != nil {
		return nil, Failf(job.ExitUsage, "%v", err)
	}
	if set != nil {
		if len(set.Hosts) == 0 {
			return nil, Failf(job.ExitHosts, "%s names no hosts", set.From)
		}
		if err := r.Fewer(set); err != nil {
			return nil, Failf(job.ExitHosts, "%v", err)
		}
		if r.Pinned.IsValid() {
			set.Hosts[0].Fixed = []netip.AddrPort{r.Pinned}
		}
		if err := r.Elsewhere(set); err != nil {
			return nil, Failf(job.ExitUsage, "%v", err)
		}
		return set, r.keyFor(set)
	}
	if r.looks() {
		if set, err = r.meet(ctx); err != nil {
			return nil, err
		}
		if err := r.Elsewhere(set); err != nil {
			return nil, Failf(job.ExitHosts, "%v", err)
		}
		return set, nil
	}
	if r.Embedded == nil || r.NotHere {
		return nil, Failf(job.ExitHosts, "no hosts: name them with --host or --hostfile")
	}
	return r.Alone()
}

// looks says that hosts that nothing names are looked for: this pod holds a secret or serves, or there are to be several.
func (r *Reach) looks() bool {
	n, _ := r.Least()
	return r.Identity != nil && (r.Sources.Pod || r.Serves || n > 1)
}

// Lonely says that no host is named, and none is looked for.
func (r *Reach) Lonely() bool {
	set, err := r.Static()
	return r.Local || set == nil && err == nil && !r.looks()
}

// Alone is this container alone, for a run that is Lonely, unless there are to be several hosts. A pod that may be one of several
// says that it is alone.
func (r *Reach) Alone() (*hosts.Set, error) {
	if r.Local {
		return r.thisHost(), nil
	}
	if err := r.Readable(); err != nil {
		return nil, Failf(job.ExitUsage, "%v", err)
	}
	if n, why := r.Least(); n > 1 {
		f := r.withoutSecret(fmt.Sprintf("%s: all hosts but this one need the job's secret", why))
		f.Lines = append(f.Lines, r.otherwise())
		return nil, f
	}
	if by := r.Array(); by != "" {
		why := "there is no secret of a job"
		if r.Identity != nil {
			why = "its secret is on no volume"
		}
		r.Say("all ranks run in this pod alone: %s, and nothing says how many pods there are (%s); %s says that this is meant", why, by, r.LocalBy)
	}
	return r.thisHost(), nil
}

// thisHost is this container alone.
func (r *Reach) thisHost() *hosts.Set {
	r.Identity = nil // the embedded agent needs none, and nothing is dialled
	return &hosts.Set{From: "this host", Hosts: []hosts.Wanted{{Entry: hostlist.Entry{Name: cmp.Or(r.Hostname, "localhost")}, Local: true}}}
}

// withoutSecret is why there is no secret, of which identity says in several lines where it was looked for. what needs one.
func (r *Reach) withoutSecret(what string) *Failure {
	why := r.NoIdentity
	if why == nil {
		why = errors.New("there is none: mount it, or name it with --key")
	}
	return &Failure{Code: job.ExitTLS, Lines: strings.Split(fmt.Sprintf("%s: %v", what, why), "\n")}
}

// keyFor checks that hosts other than this one can be asked at all.
func (r *Reach) keyFor(set *hosts.Set) error {
	if r.Identity != nil {
		return nil
	}
	for _, w := range set.Hosts {
		if !w.Local || r.Embedded == nil {
			return r.withoutSecret(fmt.Sprintf("host %s (from %s) needs the job's secret", w.Entry.Name, set.From))
		}
	}
	return nil
}

// agentAt says whether an agent of this job answers at an address.
func (r *Reach) agentAt(ctx context.Context, d *Dialer, a netip.Addr) bool {
	c, err := race(ctx, candidatesOf([]netip.Addr{a}, r.Identity.Ports()), d.connect, func(c *Conn) { c.Close() })
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// gossip asks an agent in this container for its view of the membership, and those it knows for
// theirs; nil when there is no agent here or it knows nobody.
func (r *Reach) gossip(ctx context.Context) *hosts.Set {
	here, known := r.Members(ctx, []hosts.Wanted{{Local: true}})
	if len(here) == 0 || here[0].Cause != nil {
		return nil
	}
	_, all := r.Members(ctx, memberHosts(known, here[0].Hello))
	maps.Copy(all, known)
	list := memberHosts(all, here[0].Hello)
	if list == nil {
		return nil
	}
	return &hosts.Set{From: "gossip", Hosts: list}
}

// memberHosts are members, and an agent that knows them, in order of name; siblings of one name are numbered.
func memberHosts(members map[string]*apiv1.Peer, self *apiv1.HelloReply) (list []hosts.Wanted) {
	peers := slices.Collect(maps.Values(members))
	if self != nil && members[self.Incarnation] == nil {
		peers = append(peers, &apiv1.Peer{Name: self.Name, Address: self.Address, State: "alive"})
	}
	slices.SortFunc(peers, func(a, b *apiv1.Peer) int {
		return cmp.Or(hosts.CompareNames(a.Name, b.Name), strings.Compare(a.Address, b.Address))
	})
	seen := map[string]int{}
	for _, p := range peers {
		addr, err := netip.ParseAddrPort(p.Address)
		if err != nil || p.State == "left" {
			continue
		}
		list = append(list, hosts.Wanted{Entry: hostlist.Entry{Name: numbered(seen, p.Name)}, Fixed: []netip.AddrPort{addr}})
	}
	return list
}

// numbered is a name with its number, where it was seen before.
func numbered(seen map[string]int, name string) string {
	if seen[name]++; seen[name] > 1 {
		return fmt.Sprintf("%s/%d", name, seen[name])
	}
	return name
}

// Held is a host that holds ranks whose launcher is lost, of runs that this launcher may take over.
type Held struct {
	Host  string
	Agent string // its incarnation
	Runs  []*apiv1.Held
}

func (h *Held) Error() string { return "host " + h.Host + " holds ranks whose launcher is lost" }

// ErrTimeout is --timeout as the cause of a context's end.
var ErrTimeout = errors.New("--timeout has run out")

// Assemble reaches all wanted hosts, showing who is missing, until ctx ends. An error is a *Failure or *Held.
func (r *Reach) Assemble(ctx, life context.Context, want []hosts.Wanted, o *Opener) ([]Found, error) {
	return r.assembleBy(ctx, life, want, NewDialer(r.Identity, len(want)).attach, o)
}

func (r *Reach) assembleBy(ctx, life context.Context, want []hosts.Wanted, attach link.Attach, o *Opener) ([]Found, error) {
	b := newBoard(namesOf(want), r)
	hide := b.showing(ctx)
	g := newGatherer(r, attach, o, life)
	found := g.gather(ctx, want, b)
	hide()
	if g.held != nil {
		CloseAll(found)
		return nil, g.held
	}
	lines, code := b.verdict()
	if lines == nil {
		return found, nil
	}
	CloseAll(found)
	if g.tired.Load() {
		lines = append(lines, link.NoCure(b.telling()))
	} else if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, ErrTimeout) && !errors.As(cause, new(GotSignal)) {
		lines = append(lines, fmt.Sprintf("waited %v (%s) for %s; `mpiup peers%s` shows who answers", r.Wait, r.WaitBy, visible.Count(len(want), "host"), r.Again(r.Identity.KeyFrom())))
	}
	f := &Failure{Code: code, Lines: lines}
	if r.InPod() && len(r.Entries) == 0 { // else the user may have named what is no pod
		f.Away = b.away()
	}
	return nil, f
}

// namesOf are what hosts are called.
func namesOf(want []hosts.Wanted) (names []string) {
	for _, w := range want {
		names = append(names, w.Entry.Name)
	}
	return names
}

// AssembleEnough reaches wanted hosts until enough of them are here, or ctx ends. Those that are not here have no session, and lines say why.
func (r *Reach) AssembleEnough(ctx, life context.Context, want []hosts.Wanted, enough func([]Found) bool, o *Opener) (found []Found, lines []string) {
	b := newBoard(namesOf(want), r)
	hide := b.showing(ctx)
	g := newGatherer(r, NewDialer(r.Identity, len(want)).attach, o, life)
	g.enough = enough
	found = g.gather(ctx, want, b)
	hide()
	lines, _ = b.verdict()
	return found, lines
}

// Discovers says that hosts are found one by one, and nothing names them all.
func (r *Reach) Discovers() bool {
	set, err := r.Static()
	return r.Known == nil && !r.Local && r.looks() && set == nil && err == nil
}

// Seen is the hosts that are found now, one by one; nil: none.
func (r *Reach) Seen(ctx context.Context) *hosts.Set {
	m := newMeeting(r)
	m.beyond.looked = true
	set := m.look(ctx)
	if set == nil || r.Elsewhere(set) != nil {
		return nil
	}
	return set
}

// OwnNames calls hosts that were known by address only by the names that their agents state,
// and puts them in that order, siblings numbered.
func OwnNames(all []Found) {
	if len(all) == 0 || !all[0].Bare { // a source's all are all alike
		return
	}
	seen := map[string]int{}
	for i := range all {
		if name := all[i].Session.Opened.Host.Name; name != "" {
			all[i].Entry.Name = numbered(seen, name)
		}
	}
	slices.SortStableFunc(all, func(a, b Found) int { return hosts.CompareNames(a.Entry.Name, b.Entry.Name) })
}

// AssembleMore reaches hosts beside those the run has. What waiting does not change ends it at once.
func (r *Reach) AssembleMore(ctx, life context.Context, want []hosts.Wanted, have []Found, attach link.Attach, o *Opener) ([]Found, error) {
	names := namesOf(want)
	for _, f := range have {
		names = append(names, f.Entry.Name)
	}
	b := newBoard(names, r)
	g := newGatherer(r, attach, o, life)
	g.hasty = true
	for i, f := range have {
		b.set(len(want)+i, nil)
		g.claim(f.Session, len(want)+i)
	}
	out := g.gather(ctx, want, b)
	if lines, _ := b.verdict(); lines != nil {
		CloseAll(out)
		return nil, errors.New(strings.Join(lines, "; "))
	}
	return out, nil
}

// CloseAll ends sessions, and waits for an agent of this process.
func CloseAll(hosts []Found) {
	for _, h := range hosts {
		if h.Session != nil {
			h.Session.Close()
		}
		if h.Wait != nil {
			h.Wait()
		}
	}
}
