package launcher

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/outfile"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/iof"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/launcher/remains/report"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// final prints the verdict on a run that has failed, writes it where machines look for it, and returns the exit code. tail is what the
// guilty rank wrote last.
func (r *driver) final(f verdict.Fault, tail []string) int {
	v, _ := r.run.Verdict().Verdict(r.circumstances(f))
	v.Restarts = r.restarted()
	lines := v.Lines(!r.mingled())
	if n := v.Restarts; n > 0 {
		lines = append(lines, fmt.Sprintf("the ranks had been started again %s (%s)", map[bool]string{true: "once", false: fmt.Sprint(n, " times")}[n == 1], r.cfg.restartedBy()))
	}
	if r.cfg.Output.NoCopy { // nobody has seen what it wrote
		for _, l := range tail {
			lines = append(lines, "its last lines: "+l)
		}
	}
	return r.tell(v, lines, tail)
}

// early is the verdict on a run that had no ranks yet.
func (r *driver) early(err error) int {
	f := failure(err)
	v := verdict.Early(f.Code, f.Outrun, f.Lines, verdict.Circumstances{Phase: r.phase, Bare: r.cfg.bare()})
	return r.tell(v, v.Lines(true), nil)
}

func (r *driver) tell(v verdict.Verdict, lines, tail []string) int {
	r.cfg.Metrics.Ended(&v)
	if err := r.remains.Leave(&v, v.ExitCode); err != nil {
		r.say("%v", err)
	}
	for _, l := range lines {
		r.say("%s", l)
	}
	if r.cfg.Told != nil {
		r.cfg.Told(lines, tail)
	}
	r.event(struct {
		Time  time.Time `json:"time"`
		Event string    `json:"event"`
		verdict.Verdict
	}{time.Now().UTC(), "verdict", v})
	writeTermination(&r.cfg.Reach, v.ExitCode, lines, v.Stderr, tail)
	r.remains.Seal(r.cfg.Stderr, &v, v.ExitCode)
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
	c := verdict.Circumstances{Phase: r.run.Phase(), Bare: r.cfg.bare()}
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
		c.Stderr, c.Frames = words.First, words.Frames
	}
	if len(c.Frames) == 0 {
		c.Frames = r.cores[f.ID]
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

// mingled says that several ranks have written to standard error: whose lines are whose is hard to see.
func (r *driver) mingled() bool {
	n := 0
	for id := 0; id < r.places.who().Processes() && n < 2 && r.sink != nil; id++ {
		if len(r.sink.Words(id).First) > 0 {
			n++
		}
	}
	return n > 1
}

// maxTermination is what the kubelet keeps of a container's termination message.
const maxTermination = 4096

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
		err = f.Write([]byte(termination(code, lines, first, tail)), r.TerminationBy != "")
	}
	if err != nil && r.TerminationBy != "" {
		r.Say("%s %s: %v", r.TerminationBy, r.TerminationLog, err)
	}
}

func termination(code int, lines, first, tail []string) string {
	var b strings.Builder
	write := func(list ...string) {
		for _, l := range report.Masked(list) {
			b.WriteString(visible.Line(l) + "\n")
		}
	}
	write(append(slices.Clone(lines), fmt.Sprint("exit code ", code))...)
	if len(first) > 0 {
		write(append([]string{"its first lines:"}, first...)...)
	}
	if tail = slices.DeleteFunc(slices.Clone(tail), func(l string) bool { return slices.Contains(first, l) }); len(tail) > 0 {
		write(append([]string{"its last lines:"}, tail...)...)
	}
	text := b.String()
	if len(text) <= maxTermination {
		return text
	}
	return strings.ToValidUTF8(text[:maxTermination], "") // without half a character
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
