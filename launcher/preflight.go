package launcher

import (
	"context"
	"io"
	"slices"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/outfile"
	"github.com/mpiup/mpiup/launcher/doctor"
	"github.com/mpiup/mpiup/launcher/placement"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/launcher/survey"
)

// preflight looks at the hosts of the plan before anything is started, prints what is worth a warning to standard
// error, and fails where something fails or could not be looked at. On success agents have released MPI's ports, so that
// ranks can bind them.
func (r *planner) preflight(ctx context.Context, have []reach.Found) error {
	ctx, cancel := r.patience(ctx, time.Now())
	defer cancel()
	beating, stop := context.WithCancel(ctx)
	beats := make(chan struct{})
	go func() { defer close(beats); beat(beating, have) }()
	defer func() { stop(); <-beats }()

	hosts := r.looked(ctx, have)
	defer reach.Release(hosts)
	seen := survey.Look(ctx, hosts, survey.Config{Argv: r.cfg.Apps[0].Argv, GPUsPerRank: r.cfg.GPUs.PerRank, Net: r.cfg.Net, MPIPorts: r.cfg.MPIPorts})
	if err := r.unseen(ctx, "--preflight looked at the hosts; nothing was started"); err != nil {
		return err
	}
	report := doctor.Judge(seen.Hosts, seen.Ways)
	if err := report.Text(r.cfg.Stderr, doctor.Troubles); err != nil {
		return reach.Failf(job.ExitOutput, "standard error: %v", err)
	}
	const what = "the job is not started, since --preflight found what will not work; correct the lines marked FAIL above, or leave out --preflight"
	switch {
	case seen.Usage:
		return reach.Failf(job.ExitUsage, what)
	case report.Verdict == doctor.Fail:
		return reach.Failf(job.ExitUnfit, what)
	}
	return nil
}

// picture draws the plan, for which its hosts are asked for their machines.
func (r *planner) picture(ctx context.Context, have []reach.Found) error {
	if r.cfg.Picture == "" {
		return nil
	}
	ctx, cancel := r.patience(ctx, time.Now())
	defer cancel()
	hosts := r.looked(ctx, have)
	defer reach.Release(hosts)
	machines := survey.Seats(ctx, hosts[:len(r.plan.Hosts)], survey.Seating{Plan: r.plan, Apps: r.cfg.Apps,
		GPUs: r.cfg.GPUs, Fabric: r.cfg.Fabric, Net: r.cfg.Net.String()})
	if err := r.unseen(ctx, "--svg asked the hosts for their machines; nothing was drawn"); err != nil {
		return err
	}
	draw := func(w io.Writer) error { return placement.SVG(w, r.plan, r.cfg.Apps, machines) }
	if err := outfile.Draw(r.cfg.Picture, r.cfg.Stdout, draw); err != nil {
		return reach.Failf(job.ExitOutput, "--svg: %v", err)
	}
	return nil
}

// unseen is why ctx ended while what went on; nil: it has not ended.
func (r *planner) unseen(ctx context.Context, what string) error {
	if cut := r.cut(ctx, "while "+what); cut != nil {
		return cut
	}
	if ctx.Err() != nil {
		return reach.Failf(job.ExitConnect, "--wait %v ran out while %s; raise --wait", r.cfg.Wait, what)
	}
	return nil
}

// looked are the hosts of the plan and spares, all of which are in have, each with a connection of its own beside its session.
func (r *planner) looked(ctx context.Context, have []reach.Found) []survey.Host {
	hosts := make([]survey.Host, len(r.plan.Hosts), len(have))
	for i, ranks := range r.plan.On() {
		hosts[i].Name, hosts[i].Ranks = r.plan.Hosts[i].Name, ranks.Len()
	}
	for _, f := range have {
		if r.course.Spare[f.Entry.Name] {
			hosts = append(hosts, survey.Host{Name: f.Entry.Name})
		}
	}
	d := reach.NewDialer(r.cfg.Identity, len(hosts))
	survey.InParallel(len(hosts), func(i int) {
		h := &hosts[i]
		f := have[slices.IndexFunc(have, func(f reach.Found) bool { return f.Entry.Name == h.Name })]
		if f.Embedded() {
			h.Agent = r.cfg.Here
			return
		}
		conn, err := d.Question(ctx, f.Session.Addr)
		if err != nil {
			h.Error = err
			return
		}
		h.Agent = reach.Remote{Conn: conn}
	})
	return hosts
}

// beat keeps sessions alive until ctx ends: agents give a silent launcher up after its lease. A stream that has broken
// is the job's to mend.
func beat(ctx context.Context, have []reach.Found) {
	ticks := time.NewTicker(reach.Heartbeat)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			for _, f := range have {
				_ = f.Session.Stream.Send((&apiv1.Heartbeat{}).Frame())
			}
		}
	}
}
