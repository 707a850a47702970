package launcher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/outfile"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/iof"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/launcher/report"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// recent is how many lines of output stand where people look: those of a terminal.
const recent = 40

// final prints the verdict on a run that has failed, writes it where machines look for it, and returns the exit code. tail is what the
// guilty rank wrote last.
func (r *driver) final(f verdict.Fault, tail []string) int {
	v, _ := r.run.Verdict().Verdict(r.circumstances(f))
	if v.Restarts = r.course.Restarts; v.Restarts > 0 {
		times := "once"
		if v.Restarts > 1 {
			times = fmt.Sprint(v.Restarts, " times")
		}
		v.Note(fmt.Sprintf("the ranks had been started again %s (%s)", times, r.cfg.restartedBy()))
	}
	unseen := r.cfg.Output.NoCopy || f.ID >= 0 && r.sink != nil && r.sink.Words(f.ID).Above > recent
	if v.Failed() {
		fmt.Fprintln(r.cfg.Stderr)
	}
	return r.tell(v, tail, unseen)
}

// early is the verdict on a run that had no ranks yet.
func (r *driver) early(err error) int {
	f := failure(err)
	v := verdict.Early(f.Code, f.Outrun, f.Lines, verdict.Circumstances{Phase: r.phase, Bare: !r.cfg.InPod(), Away: f.Away})
	return r.tell(v, nil, false)
}

// tell says how the run has ended, to people and to machines. unseen: nobody can see any more what the guilty rank wrote.
func (r *driver) tell(v verdict.Verdict, tail []string, unseen bool) int {
	kept, err := r.remains.Leave(&v, v.ExitCode)
	if r.cfg.Metrics.Ended(&v, r.remains); err != nil {
		r.cfg.Say("%v", err)
	}
	how := verdict.LastLines{All: r.run == nil || r.cfg.Log.Enabled(context.Background(), slog.LevelInfo), Unseen: unseen, Report: kept}
	end := v.End(how)
	if r.cfg.Output.NoCopy { // nobody has seen what it wrote
		for _, l := range tail {
			end = slices.Insert(end, len(end)-1, "its last lines: "+l)
		}
	}
	r.cfg.Head("%s", end[0])
	for _, l := range end[1:] {
		r.cfg.Say("%s", l)
	}
	how.All = true
	all := v.End(how)
	if r.cfg.Judged != nil {
		r.cfg.Judged(v)
	}
	if r.cfg.Told != nil {
		r.cfg.Told(all, tail)
	}
	r.event(struct {
		Time  time.Time `json:"time"`
		Event string    `json:"event"`
		verdict.Verdict
	}{time.Now().UTC(), "verdict", v})
	writeTermination(&r.cfg.Reach, v.ExitCode, all, v.Stderr, tail)
	return v.ExitCode
}

// event is one of mpiup's own among the ranks' lines, where these are JSON.
func (r *driver) event(e any) {
	if r.cfg.Output.Mode != iof.JSON {
		return
	}
	if text, err := visible.JSONLine(e); err == nil {
		_, _ = fmt.Fprintf(r.cfg.Stdout, "%s\n", text)
	}
}

// circumstances are what the run knows of the guilty process and its host.
func (r *driver) circumstances(f verdict.Fault) verdict.Circumstances {
	c := verdict.Circumstances{Phase: r.run.Phase(), Bare: !r.cfg.InPod(), Remote: r.identity != nil}
	var units []*apiv1.GpuUnit
	if f.Node >= 0 && f.Node < len(r.places.hosts()) {
		h := r.places.hosts()[f.Node].First.Opened.GetHost()
		c.Node, units = h.GetNode(), h.GetGpuUnits()
		c.Bare = c.Bare && c.Node == ""
	}
	if f.Event == verdict.LauncherTaken {
		c.Node = r.cfg.Env("NODE_NAME")
	}
	if f.ID < 0 {
		return c
	}
	c.PID = r.run.PID(f.ID)
	if r.sink != nil {
		words := r.sink.Words(f.ID)
		at := r.cores[f.ID]
		c.Stderr, c.Frames = words.First, iof.Where(words.Frames, at)
		tail, _ := r.sink.Tail(f.ID)
		c.Wrote = r.wrote(words, tail)
	}
	local := 0
	for id := f.ID - f.Process.Rank; id < f.ID; id++ {
		if r.places.who().HostOf(id) == f.Node {
			local++
		}
	}
	if wish := r.cfg.GPUs; wish.PerRank > 0 {
		local *= wish.PerRank
	} else if len(units) > 1 {
		return c // which one it used is not for mpiup to know
	}
	if local < len(units) {
		c.GPU, c.PCI = units[local].Uuid, units[local].Pci
	}
	return c
}

// wrote is what a process had to say, by its last lines, where that is not the last that people see, as others wrote too, or where it is why
// the process ends: sys.exit("text") writes it on standard error.
func (r *driver) wrote(words iof.Words, tail []string) (w verdict.Wrote) {
	if len(tail) == 0 {
		return verdict.Wrote{Nothing: true}
	}
	last := tail[len(tail)-1]
	if !words.Early && last == words.Last {
		return verdict.Wrote{Last: last}
	}
	spoke := 0
	for id := 0; id < r.places.who().Processes() && spoke < 2; id++ {
		if len(r.sink.Words(id).First) > 0 {
			spoke++
		}
	}
	if spoke > 1 {
		w.Last = last
	}
	return w
}

// writeTermination leaves the verdict where Kubernetes looks for it (the container's terminationMessagePath), the most useful
// first. The kubelet makes that file, and mounts it: it is written in its place. Where there is none, nothing is written,
// but a file that the user named is made. Only of that one is said that it could not be had: stderr has said all else.
func writeTermination(r *reach.Reach, code int, lines, first, tail []string) {
	if r.TerminationLog == "" {
		return
	}
	f, err := r.Termination, error(nil)
	if f == nil {
		if f, err = outfile.At(r.TerminationLog); err == nil {
			defer f.Close()
		}
	}
	if err == nil {
		err = f.Write([]byte(report.Termination(code, lines, first, tail)), r.TerminationBy != "")
	}
	if err != nil && r.TerminationBy != "" {
		r.Say("%s %s: %v", r.TerminationBy, r.TerminationLog, err)
	}
}

// last prints a failure's last lines, mirrors them to the termination log, and returns code.
// tail is what the rank at fault wrote last; the terminal has shown it already.
func last(r *reach.Reach, code int, lines, tail []string) int {
	for _, l := range lines {
		r.Say("%s", l)
	}
	if r.Told != nil {
		r.Told(lines, tail)
	}
	writeTermination(r, code, lines, nil, tail)
	return code
}

// End prints a failure and is its exit code.
func End(r *reach.Reach, err error) int {
	f := failure(err)
	return last(r, f.Code, f.Lines, nil)
}

func failure(err error) *reach.Failure {
	if f := (*reach.Failure)(nil); errors.As(err, &f) {
		return f
	}
	return reach.Failf(job.ExitInternal, "%v", err)
}
