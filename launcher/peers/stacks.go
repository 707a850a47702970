package peers

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/outfile"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher"
	"github.com/mpiup/mpiup/launcher/hang"
	"github.com/mpiup/mpiup/launcher/placement"
	"github.com/mpiup/mpiup/launcher/reach"
)

// StacksConfig is one look at where ranks are.
type StacksConfig struct {
	reach.Reach
	Ranks  string // of their jobs, as idset.Parse has it; empty: all
	Signal int    // SIGUSR1, SIGUSR2 or 0
	JSON   bool
	SVG    string // a file for the flame graph; "-": standard output, which has nothing else then; "": none
}

// stacksView is what mpiup stacks prints.
type stacksView struct {
	Groups []hang.StackGroup `json:"groups"`
	Absent []absence         `json:"absent,omitempty"` // who is waited for
	Notes  map[string]string `json:"notes,omitempty"`  // by host: what would tell more
	Errors map[string]string `json:"errors,omitempty"` // by host or run that told nothing
}

// stacksTime is for one host: its agent gives up before.
const stacksTime = 30 * time.Second

// Stacks prints where the ranks of all jobs on the hosts are, and returns an exit code: 0 when every named host answered.
func Stacks(ctx context.Context, cfg StacksConfig) int {
	cfg.Fill()
	whom := newCircle(ctx, &cfg.Reach)
	near, away, errs, code, err := whom.look(ctx, &apiv1.RanksRequest{Flight: true, Stacks: &apiv1.StacksWish{Ranks: cfg.Ranks, Signal: int32(cfg.Signal)}})
	if err != nil {
		return launcher.End(&cfg.Reach, err)
	}
	view := stacksView{Groups: []hang.StackGroup{}, Notes: map[string]string{}, Errors: errs}
	view.Absent = append(absent(near, false), absent(away, cfg.Entries == nil)...)
	var ranks []hang.Whereabouts
	for _, t := range slices.Concat(near, away) {
		ranks = append(ranks, t.whereabouts()...)
		if len(t.reply.Notes) > 0 {
			view.Notes[t.host] = strings.Join(t.reply.Notes, "; ")
		}
	}
	view.Groups = append(view.Groups, hang.GroupStacks(ranks)...)
	if err := view.show(&cfg); err != nil {
		return launcher.End(&cfg.Reach, err)
	}
	return code
}

// whereabouts are where the host's ranks are, those of which that was asked.
func (t told) whereabouts() (list []hang.Whereabouts) {
	for m := range t.ranks() {
		if m.Stack != nil && m.Rank < placement.MaxRanks {
			list = append(list, t.where(m))
		}
	}
	return list
}

// show prints the view, and draws it where that was asked for.
func (v stacksView) show(cfg *StacksConfig) error {
	if cfg.SVG != "-" {
		if err := v.print(cfg.Stdout, cfg.JSON); err != nil {
			return reach.Unwritten(err)
		}
	}
	draw := func(w io.Writer) error { return hang.FlameGraph(w, v.Groups) }
	if err := outfile.Draw(cfg.SVG, cfg.Stdout, draw); err != nil {
		return reach.Failf(job.ExitOutput, "--svg: %v", err)
	}
	return nil
}

func (v stacksView) print(w io.Writer, asJSON bool) error {
	var b strings.Builder
	if asJSON {
		return visible.JSON(w, v)
	}
	runs := map[runKey]bool{}
	for _, g := range v.Groups {
		runs[runKey{g.Launcher, g.Job}] = true
	}
	writeAbsent(&b, v.Absent, runs)
	if len(v.Groups) > 0 || len(v.Errors) == 0 {
		b.WriteString(hang.StacksText(v.Groups))
	}
	said := map[string][]string{} // hosts by what they all say
	for host, text := range v.Notes {
		said[text] = append(said[text], host)
	}
	for _, text := range slices.Sorted(maps.Keys(said)) {
		slices.Sort(said[text])
		fmt.Fprintf(&b, "%s: %s\n", strings.Join(said[text], ", "), text)
	}
	writeErrors(&b, v.Errors)
	_, err := io.WriteString(w, visible.Text(b.String()))
	return err
}
