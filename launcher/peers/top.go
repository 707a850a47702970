package peers

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/launcher/slow"
	"github.com/mpiup/mpiup/launcher/witness"
)

// mpiup top and ps --for show for whom the others wait, by what agents tell of the last window at each look.
//
//	Ranks{window} ──▶ each host ──RanksReply──▶ waits: a slow.Watch and a slow.Calls for each run ──▶ rows, the slowest first, and sentences

// TopConfig is one table after the other, or one of them.
type TopConfig struct {
	reach.Reach
	JSON   bool
	Window time.Duration // that is looked at
	Every  time.Duration // between looks
	For    time.Duration // for so long it is looked before the one table is printed; 0: tables go on until the context ends
}

// topRow is a rank with what it costs the others.
type topRow struct {
	psRow
	CPUTime float64  `json:"cpu_seconds"`
	Peak    uint64   `json:"peak_rss_bytes,omitempty"`
	Waited  *float64 `json:"waited_share,omitempty"` // of the window, that it waited in MPI; absent: not measured
	Lost    float64  `json:"others_waited_share"`    // for it
	Cause   string   `json:"cause,omitempty"`
}

// topView is what is printed.
type topView struct {
	Ranks  []topRow          `json:"ranks"`
	Said   []saying          `json:"found,omitempty"`
	Errors map[string]string `json:"errors,omitempty"` // by host or run that told nothing
}

// saying is what there is to say of one run.
type saying struct {
	Launcher string `json:"launcher"`
	Job      string `json:"job"`
	Text     string `json:"text"`
	found    bool   // it tells of ranks; else that nobody is slow, or that it is not measured
}

// Top shows for whom the ranks of all jobs on the hosts wait, and returns an exit code: 0 when every named host answered.
func Top(ctx context.Context, cfg TopConfig) int {
	cfg.Fill()
	whom := newCircle(ctx, &cfg.Reach)
	all := newWaits(cfg.Window)
	watch := cfg.Every
	if cfg.For > 0 {
		watch = 0
	}
	on := screenOf(&PsConfig{Reach: cfg.Reach, JSON: cfg.JSON, Watch: watch})
	begun, told := time.Now(), map[string]bool{}
	for {
		now := time.Since(begun)
		view, code, err := cfg.look(ctx, whom, all, now)
		if err != nil {
			return launcher.End(&cfg.Reach, err)
		}
		last := cfg.For > 0 && now >= cfg.For
		if ctx.Err() != nil && cfg.For == 0 {
			return 0 // who ends it has seen what there was
		}
		if last || cfg.For == 0 {
			view.Said = slices.DeleteFunc(view.Said, func(s saying) bool { // said above
				again := told[s.Job+s.Text] && on == nil && !cfg.JSON && !s.found
				told[s.Job+s.Text] = true
				return again
			})
			if err := view.print(cfg.Stdout, cfg.JSON, on); err != nil {
				return launcher.End(&cfg.Reach, reach.Unwritten(err))
			}
		}
		if last {
			return code
		}
		wait := cfg.Every
		if cfg.For > 0 {
			wait = min(wait, max(cfg.For-now, time.Millisecond))
		}
		if !pause(ctx, wait) {
			return 0
		}
	}
}

// look asks all once.
func (cfg *TopConfig) look(ctx context.Context, c *circle, all *waits, now time.Duration) (view topView, code int, err error) {
	near, away, errs, code, err := c.look(ctx, &apiv1.RanksRequest{WindowNs: int64(cfg.Window), Flight: true})
	all.begin()
	for _, t := range slices.Concat(near, away) {
		all.hear(now, t)
	}
	return topView{Ranks: all.rows(now), Said: all.said(append(absent(near, false), absent(away, false)...)), Errors: errs}, code, err
}

// waits is what is known of all runs.
type waits struct {
	window time.Duration
	runs   map[runKey]*waiting
}

// waiting is one run: its first job, whose ranks wait for each other.
type waiting struct {
	slow.Watch
	now   time.Duration // of the last look
	calls slow.Calls
	size  int

	late   slow.Late
	found  slow.Finding
	tardy  slow.Tardy
	called bool // tardy is measured

	names map[int]string // "rank 3 (w1, pid 4711)"
	hosts map[int]string // of each
	rows  []topRow       // of all jobs, at the last look
}

func newWaits(window time.Duration) *waits {
	return &waits{window: window, runs: map[runKey]*waiting{}}
}

// begin begins a look.
func (a *waits) begin() {
	for key, r := range a.runs {
		if len(r.rows) == 0 {
			delete(a.runs, key) // its ranks are gone
			continue
		}
		r.rows = nil
	}
}

// hear takes what a host tells.
func (a *waits) hear(now time.Duration, t told) {
	waited := map[runKey][]*apiv1.RankWaited{}
	for m := range t.ranks() {
		key := runKey{word(m.Launcher), word(m.Job)}
		r := a.runs[key]
		if r == nil {
			if len(a.runs) == maxRuns {
				continue
			}
			r = &waiting{Watch: slow.Watch{Window: a.window}, names: map[int]string{}, hosts: map[int]string{}}
			a.runs[key] = r
		}
		w := m.Waited
		r.rows = append(r.rows, topRow{psRow: t.row(m), CPUTime: max(0, time.Duration(w.GetCpuNs()).Seconds()), Peak: m.PeakRss})
		if w == nil || t.reply.Host == nil || m.Number != 0 || w.Id != m.Rank || m.Rank >= maxRanks {
			continue
		}
		waited[key] = append(waited[key], w)
		r.hosts[int(m.Rank)] = t.host
		r.names[int(m.Rank)] = fmt.Sprintf("rank %d (%s, pid %d)", m.Rank, visible.Line(t.host), m.Pid)
	}
	for key, w := range waited {
		at, reports, err := t.reply.Host.Seen(w, idset.Range(0, maxRanks-1))
		if err == nil { // else it is no agent's
			a.runs[key].Hear(now, at, reports)
		}
	}
	for _, w := range t.reply.GetWaits()[:min(len(t.reply.GetWaits()), maxRuns)] {
		if r := a.runs[runKey{word(w.GetLauncher()), word(w.GetJob())}]; r != nil {
			r.size = max(r.size, int(min(w.GetSize(), maxRanks)))
		}
	}
	for key, rec := range t.records() {
		if r := a.runs[key]; r != nil {
			r.calls.Hear(t.host, t.offset, rec)
		}
	}
}

// rows are all ranks, those that others wait for first.
func (a *waits) rows(now time.Duration) (all []topRow) {
	all = []topRow{}
	for _, key := range sorted(a.runs) {
		r := a.runs[key]
		r.judge(now)
		for i := range r.rows {
			r.cost(&r.rows[i])
		}
		all = append(all, r.rows...)
	}
	slices.SortStableFunc(all, func(x, y topRow) int { return cmp.Or(cmp.Compare(y.Lost, x.Lost), x.compare(y.psRow)) })
	return all
}

// ranks is how many ranks the run has, as far as it shows: of hosts that were not asked some are missing.
func (r *waiting) ranks() int { return max(r.size, len(r.names)) }

// judge finds for whom the run's ranks wait.
func (r *waiting) judge(now time.Duration) {
	r.now = now
	r.place()
	r.late, r.found = r.Awaited(now, r.ranks()), r.Finding(r.ranks())
	r.tardy, r.called = r.calls.Find(r.Window)
}

// place says on which host each rank is.
func (r *waiting) place() {
	all, hosts := idset.Set{}, map[string]bool{}
	for id, host := range r.hosts {
		all.Add(id)
		hosts[host] = true
	}
	r.Places = witness.Places{All: all, Host: func(id int) string { return r.hosts[id] }}
	r.calls.Hosts = len(hosts)
}

// cost fills in what a rank costs the others.
func (r *waiting) cost(row *topRow) {
	id := int(row.Rank)
	if row.Number != 0 {
		return
	}
	if share, known := r.Waited(id); known {
		row.Waited = &share
	}
	var cause slow.Cause
	switch {
	case !r.late.Alleged && slices.Contains(r.late.Ranks, id):
		row.Lost, cause = 1, r.Reason(id, 1).Cause
	case !r.found.Alleged && slices.Contains(r.found.Ranks, id):
		row.Lost, cause = r.found.Share, r.Reason(id, r.found.Share).Cause
	case r.tardy.Share > 0 && !r.tardy.Alleged && r.tardy.Rank == id && r.tardy.Host == row.Host:
		row.Lost, cause = r.tardy.Share, r.Reason(id, r.tardy.Share).Cause
	default:
		return
	}
	row.Cause = cause.String()
}

// said is what there is to say of each run, of which absent are waited for in exchanges. Where nothing can be, why.
func (a *waits) said(absent []absence) (list []saying) {
	for _, key := range sorted(a.runs) {
		r := a.runs[key]
		if i := slices.IndexFunc(absent, func(b absence) bool { return runKey{b.Launcher, b.Job} == key }); i >= 0 {
			list = append(list, saying{key.launcher, key.job, strings.Join(absent[i].Lines, "\n"), true})
			continue
		}
		names := slow.Names{One: func(id int) string { return r.names[id] }, Many: func(ids []int) string { return idset.Of(ids...).Named("rank") }}
		text, found := r.Underway(r.now, names), true
		switch {
		case len(r.late.Ranks) > 0:
			text = r.late.Sentence(names)
		case len(r.found.Ranks) > 0 || r.found.Moves:
			text = r.found.Sentence(names)
		case r.tardy.Share > 0 && !r.tardy.Alleged:
			text = r.tardy.Sentence(r.Reason(r.tardy.Rank, r.tardy.Share).Sentence())
		case text != "":
		case r.found.Measured || r.called:
			found, text = false, fmt.Sprintf("no rank held the others up for a tenth of the last %v", a.window)
		default:
			found, text = false, "for whom the others wait is not measured: "+r.unmeasured(a.window)
		}
		list = append(list, saying{key.launcher, key.job, text, found})
		if steps := r.Cadence(r.now); steps != "" {
			list = append(list, saying{key.launcher, key.job, steps, false})
		}
	}
	return list
}

// inMPI are phases of ranks that have called MPI_Init.
var inMPI = []string{phases[apiv1.RankPhase_PHASE_FENCE], phases[apiv1.RankPhase_PHASE_RUNNING], phases[apiv1.RankPhase_PHASE_FINALIZED]}

// unmeasured is why nothing can be said, in words that fit the ranks' program.
func (r *waiting) unmeasured(window time.Duration) string {
	why := r.Unmeasured(r.ranks())
	switch {
	case r.Unwatched() && slices.ContainsFunc(r.rows, func(row topRow) bool { return slices.Contains(inMPI, row.Phase) }):
		return "start the run with mpiup run --watch-ranks (mpiup help slow)"
	case r.Unwatched():
		return "the ranks do not use MPI (mpiup help slow)"
	case why != "":
		return why
	}
	return fmt.Sprintf("the ranks had not enough collectives in the last %v", window)
}

// writeSaid writes what there is to say of each of so many runs.
func writeSaid(b *strings.Builder, said []saying, runs int) {
	for _, s := range said {
		b.WriteString(whose(s.Launcher, s.Job, runs) + visible.Line(s.Text) + "\n")
	}
}

func (v topView) print(w io.Writer, asJSON bool, on *screen) error {
	if asJSON {
		return visible.JSON(w, v)
	}
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "RANK\tHOST\tPID\tPROGRAM\tOTHERS WAITED\tCAUSE\tWAITED\tSTATE\tCPU%\tCPU TIME\tRSS\tPEAK")
	for _, r := range v.Ranks {
		rank, waited, lost := fmt.Sprint(r.Rank), "-", "-"
		if r.Number > 0 {
			rank = fmt.Sprintf("%d/%d", r.Number, r.Rank)
		}
		if r.Waited != nil {
			waited = fmt.Sprintf("%.0f %%", 100**r.Waited)
		}
		if r.Lost > 0 {
			lost = fmt.Sprintf("%.0f %%", 100*r.Lost)
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%.0f\t%s\t%s\t%s\n", rank, r.Host, r.Main, r.Program, lost, cmp.Or(r.Cause, "-"), waited,
			r.State, r.CPU, time.Duration(r.CPUTime*float64(time.Second)).Round(time.Second), bytesOf(r.RSS), bytesOf(r.Peak))
	}
	t.Flush()
	if len(v.Ranks) == 0 && len(v.Errors) == 0 {
		b.Reset()
		b.WriteString("no ranks run\n")
	}
	writeSaid(&b, v.Said, len(v.Said))
	writeErrors(&b, v.Errors)
	if on != nil {
		return on.put(w, b.String())
	}
	_, err := visible.Fprint(w, b.String())
	return err
}
