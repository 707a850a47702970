package peers

import (
	"cmp"
	"context"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/link"
	"github.com/mpiup/mpiup/launcher/reach"
)

// PsConfig is one look at what ranks do, or one look after the other.
type PsConfig struct {
	reach.Reach
	JSON  bool
	Watch time.Duration // between looks, which go on until the context ends; 0: one look
}

// psView is what mpiup ps prints.
type psView struct {
	Ranks  []psRow           `json:"ranks"`
	Absent []absence         `json:"absent,omitempty"` // who is waited for
	Said   []saying          `json:"found,omitempty"`  // of other runs, as mpiup top says it
	Errors map[string]string `json:"errors,omitempty"` // by host or run that told nothing
}

// Ps prints what the ranks of all jobs on the hosts do, and returns an exit code: 0 when every named host answered.
func Ps(ctx context.Context, cfg PsConfig) int {
	cfg.Fill()
	on := screenOf(&cfg)
	whom := newCircle(ctx, &cfg.Reach)
	all := newWaits(psWindow)
	begun := time.Now()
	for {
		view, code, err := lookAtRanks(ctx, whom, all, time.Since(begun))
		if err != nil {
			return launcher.End(&cfg.Reach, err)
		}
		if ctx.Err() != nil {
			return 0 // who ends --watch has seen what there was
		}
		if on != nil {
			err = on.show(cfg.Stdout, &view)
		} else {
			err = view.print(cfg.Stdout, cfg.JSON)
		}
		if err != nil {
			return launcher.End(&cfg.Reach, reach.Unwritten(err))
		}
		if cfg.Watch == 0 {
			return code
		}
		if !pause(ctx, cfg.Watch) {
			return 0
		}
	}
}

// psWindow is how much of the time before a look counts.
const psWindow = 10 * time.Second

// judge adds what there is to say of each run.
func (v *psView) judge(all *waits, absent []absence, now time.Duration) {
	slices.SortStableFunc(v.Ranks, psRow.compare)
	v.Absent = absent
	all.rows(now)
	for _, s := range all.said(nil) {
		if s.found && !slices.ContainsFunc(v.Absent, func(a absence) bool { return runKey{a.Launcher, a.Job} == runKey{s.Launcher, s.Job} }) {
			v.Said = append(v.Said, s)
		}
	}
}

// pause is the time between two looks; false: the user has seen enough.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// inquired are the hosts to ask what ranks do: those that the user named, else all that the sources and gossip know.
func inquired(ctx context.Context, r *reach.Reach) ([]hosts.Wanted, error) {
	set, err := r.Others(ctx)
	if err != nil {
		return nil, err
	}
	if r.Entries != nil {
		return set.Hosts, nil
	}
	found, members := r.Members(ctx, set.Hosts)
	return append(set.Hosts, reach.Unvisited(found, members)...), nil
}

func lookAtRanks(ctx context.Context, c *circle, all *waits, now time.Duration) (view psView, code int, err error) {
	view.Ranks = []psRow{}
	near, away, errs, code, err := c.look(ctx, &apiv1.RanksRequest{WindowNs: int64(psWindow)})
	all.begin()
	for _, t := range slices.Concat(near, away) {
		view.Ranks = append(view.Ranks, t.rows()...)
		all.hear(now, t)
	}
	view.judge(all, append(absent(near, false), absent(away, c.reach.Entries == nil)...), now)
	view.Errors = errs
	return view, code, err
}

// Bounds of what one host tells.
const (
	maxRanks = 1 << 16 // of a host, and of a run that is looked into
	maxWord  = 128     // bytes
)

var phases = map[apiv1.RankPhase]string{
	apiv1.RankPhase_PHASE_NEVER: "never", apiv1.RankPhase_PHASE_FENCE: "in a fence",
	apiv1.RankPhase_PHASE_RUNNING: "running", apiv1.RankPhase_PHASE_FINALIZED: "finalized",
}

// rows are what the host's agent tells of its ranks.
func (t told) rows() (rows []psRow) {
	for m := range t.ranks() {
		rows = append(rows, t.row(m))
	}
	return rows
}

func (t told) row(m *apiv1.RankState) psRow {
	percent := m.Cpu * 100
	if math.IsNaN(percent) || percent < 0 || percent > 1e6 {
		percent = 0
	}
	return psRow{Launcher: word(m.Launcher), Job: word(m.Job), Number: m.Number, Rank: m.Rank, Host: t.host, PID: m.Pid, Main: m.Main,
		Program: word(m.Program), State: stateName(m.State), CPU: math.Round(percent*10) / 10, RSS: m.Rss, Processes: m.Processes, GPUMemory: m.GpuMemory,
		Silent: time.Duration(max(m.SilentNs, 0)).Round(time.Millisecond).Seconds(), Wrote: m.Wrote, Phase: cmp.Or(phases[m.Phase], "-"),
		Syscall: word(m.Syscall), Wchan: word(m.Wchan), Mount: word(m.Mount), Restarts: m.Restarts}
}

func word(s string) string { return s[:min(len(s), maxWord)] }

// troubles are the hosts that did not answer, with why, and the exit code of that.
func troubles(found []reach.Visited) (errs map[string]string, code int) {
	errs = map[string]string{}
	causes := make([]*link.Cause, 0, len(found))
	nobody := !slices.ContainsFunc(found, func(v reach.Visited) bool { return v.Hello != nil })
	for _, v := range found {
		if v.Cause != nil && (nobody || !v.Bare || v.Hello != nil) { // a pod of the service need not have an agent
			errs[nameOf(&v)] = v.Cause.Error()
			causes = append(causes, v.Cause)
		}
	}
	if tell := link.Telling(causes); tell != nil {
		code = tell.Stage.ExitCode()
	}
	return errs, code
}

// nameOf is what its agent calls a host that nobody named.
func nameOf(v *reach.Visited) string {
	if v.Bare && v.Hello.GetName() != "" {
		return v.Hello.Name
	}
	return v.Entry.Name
}

// homeAndClear begins a terminal's screen anew.
const homeAndClear = "\x1b[H\x1b[J"

func (v psView) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return visible.JSON(w, v)
	}
	_, err := visible.Fprint(w, v.text(nil, 0))
	return err
}

// text is the view for a person, on a screen, columns wide, or not.
func (v psView) text(on *screen, columns int) string {
	var b strings.Builder
	if len(v.Ranks) > 0 || len(v.Errors) == 0 {
		b.WriteString(tableOf(v.Ranks, on, columns))
	}
	runs := map[runKey]bool{}
	for _, r := range v.Ranks {
		runs[runKey{r.Launcher, r.Job}] = true
	}
	var more strings.Builder
	writeAbsent(&more, v.Absent, runs)
	writeSaid(&more, v.Said, len(runs))
	writeErrors(&more, v.Errors)
	return b.String() + visible.Text(more.String())
}

// writeErrors tells of those that told nothing, alike ones together.
func writeErrors(b *strings.Builder, errs map[string]string) {
	names, texts := map[string][]string{}, map[string][]string{}
	for _, name := range slices.SortedFunc(maps.Keys(errs), hosts.CompareNames) {
		noun := map[bool]string{true: "run", false: "host"}[strings.HasPrefix(name, runHere)]
		names[noun] = append(names[noun], visible.Line(name))
		texts[noun] = append(texts[noun], visible.Line(errs[name]))
	}
	for _, noun := range []string{"run", "host"} {
		for _, line := range hostlist.Together(noun, names[noun], texts[noun]) {
			b.WriteString(line + "\n")
		}
	}
}
