package peers

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/awake"
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
	var mu sync.Mutex
	var ranks []hang.Whereabouts
	view := stacksView{Groups: []hang.StackGroup{}, Notes: map[string]string{}, Errors: map[string]string{}}
	q := &apiv1.StacksRequest{Ranks: cfg.Ranks, Signal: int32(cfg.Signal)}
	take := func(host string, reply *apiv1.StacksReply) {
		mu.Lock()
		defer mu.Unlock()
		ranks = append(ranks, stackRows(host, reply)...)
		if len(reply.Notes) > 0 {
			view.Notes[host] = strings.Join(reply.Notes, "; ")
		}
	}
	whom := newCircle(ctx, &cfg.Reach)
	told := map[string]string{}
	near := absences{name: cfg.Pod}
	reply := func() *apiv1.StacksReply { return &apiv1.StacksReply{} }
	err := askNearby(ctx, whom, apiv1.AskStacks, q, reply, told, func(reply *apiv1.StacksReply) string {
		take(cfg.Pod, reply)
		near.flights(fmt.Sprint(len(near.asked)), reply)
		return ""
	})
	if err == nil {
		state := func() *apiv1.RanksReply { return &apiv1.RanksReply{} }
		err = askNearby(ctx, whom, apiv1.AskRanks, &apiv1.RanksRequest{}, state, told, func(reply *apiv1.RanksReply) string {
			near.ranks(fmt.Sprint(len(near.hosts)), reply)
			return ""
		})
	}
	if err != nil {
		return launcher.End(&cfg.Reach, err)
	}
	away := absences{all: cfg.Entries == nil}
	found := whom.visit(ctx, func(_ context.Context, v *reach.Visited, conn *reach.Conn) error {
		ctx, cancel := awake.Within(ctx, stacksTime) // a visit's own is for agents that need not look for long
		defer cancel()
		reply, err := conn.Client.Stacks(ctx, q)
		if err != nil {
			return err
		}
		away.flights(nameOf(v), reply)
		if state, err := conn.Client.Ranks(ctx, &apiv1.RanksRequest{}); err == nil { // its stacks are here in any case
			away.ranks(nameOf(v), state)
		} else {
			away.untold()
		}
		take(nameOf(v), reply)
		return nil
	})
	view.Absent = append(near.find(), away.find()...)
	errs, code := troubles(found)
	view.Errors = errs
	maps.Copy(view.Errors, told)
	view.Groups = append(view.Groups, hang.GroupStacks(ranks)...)
	if err := view.show(&cfg); err != nil {
		return launcher.End(&cfg.Reach, err)
	}
	return code
}

// Bounds of what one host tells of a rank.
const (
	maxFrames = 64
	maxFrame  = 200 // bytes
)

// stackRows are what a host's agent tells of where its ranks are.
func stackRows(host string, reply *apiv1.StacksReply) (list []hang.Whereabouts) {
	line := func(s string) string { return strings.ReplaceAll(s[:min(len(s), maxFrame)], "\n", " ") }
	for _, m := range reply.GetStacks()[:min(len(reply.GetStacks()), maxRanks)] {
		if m == nil || m.Rank >= placement.MaxRanks {
			continue
		}
		r := hang.Whereabouts{Launcher: line(m.Launcher), Job: line(m.Job), Number: m.Number, Rank: m.Rank, Host: host, PID: m.Pid,
			Program: line(m.Program), Means: line(m.Means)}
		for _, f := range m.Frames[:min(len(m.Frames), maxFrames)] {
			r.Frames = append(r.Frames, line(f))
		}
		list = append(list, r)
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
	for _, a := range v.Absent {
		runs[runKey{a.Launcher, a.Job}] = true
	}
	b.WriteString(textOf(v.Absent, len(runs)))
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
