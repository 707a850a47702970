package cli

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/mpiup/mpiup/internal/frameworks"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/iof"
	"github.com/mpiup/mpiup/launcher/progress"
)

// Check finds where flags contradict each other, and settles what two flags can say. Afterwards Policy.PerNode has the
// number of ppr:N:node, Binding what concerns CPUs, and Output is tag if --tag-output was given. It is called once.
func (f *RunFlags) Check() error {
	if f.Local && (len(f.Hosts) > 0 || f.Hostfile != "" || f.Size > 0) {
		return fmt.Errorf("--local is for this machine alone; leave it out, or --host, --hostfile and --size")
	}
	if err := cmp.Or(f.HostFlags.Check(), f.LeaseFlags.Check(), f.GPUs.Check(), f.settleBinding(), f.settleFrameworks(), f.checkElastic()); err != nil {
		return err
	}
	if f.Independent {
		if f.MPI != "auto" && f.MPI != "none" || len(f.Env) > 0 {
			return fmt.Errorf("--independent starts programs that are no job; leave out --mpi and --env")
		}
		f.MPI, f.Frameworks, f.Linger = "none", frameworks.None, true
	}
	if f.Picture != "" && !f.DryRun {
		return fmt.Errorf("--svg draws where ranks would run; write --dry-run --svg %s", visible.Clip(f.Picture))
	}
	if f.Pty && (f.Output.Mode == iof.JSON || f.Output.Dir != "") {
		return fmt.Errorf("--pty is for output that somebody reads along; files (--output-dir) and --output json get pipes: leave one of them out")
	}
	w := &f.Stall.Progress
	if !w.On() && (w.Stall > 0 || w.Start > 0 || len(w.Fail) > 0 || w.Rank != progress.First || w.Abort) {
		return fmt.Errorf("--watch-stall, --watch-start, --watch-fail, --watch-rank and --on-watch judge what --watch PATTERN reads; give it too")
	} else if w.Abort && w.Stall == 0 && w.Start == 0 && len(w.Fail) == 0 {
		return fmt.Errorf("--on-watch abort: say with --watch-stall, --watch-start or --watch-fail what ends the run")
	}
	if err := w.Check(); err != nil {
		return err
	}
	f.Stall.Alone = f.Stall.Abort || f.Stall.After != DefaultStall // one rank alone may wait for its user, unless that asked
	f.TagOutput = f.TagOutput || f.Output.TagHost || f.Output.TagStream
	if f.TagOutput {
		if f.Output.Mode == iof.JSON {
			return fmt.Errorf("--tag-output and --output json are two forms of output; give one (json names the rank too)")
		}
		f.Output.Mode = iof.Tag
	}
	return nil
}

// checkElastic finds what --min-np and --max-np lack; -n is known once the programs are.
func (f *RunFlags) checkElastic() error {
	switch {
	case f.MinNP == 0 && f.MaxNP > 0:
		return fmt.Errorf("--max-np %d: an elastic job needs --min-np too, the fewest ranks with which it goes on", f.MaxNP)
	case f.MinNP == 0:
		return nil
	case f.MaxRestarts == 0:
		return fmt.Errorf("--min-np %d: when a host is lost the ranks start again; say with --max-restarts how often they may", f.MinNP)
	case f.MaxNP > 0 && f.MaxNP < f.MinNP:
		return fmt.Errorf("--max-np %d is less than --min-np %d", f.MaxNP, f.MinNP)
	}
	return nil
}

// Elastic is how many ranks a job of so many (0: not given) may have.
func (f *RunFlags) Elastic(n int) (job.Elastic, error) {
	e := job.Elastic{Min: f.MinNP, Begin: n, Max: cmp.Or(f.MaxNP, n), LastCall: f.LastCall}
	if e.On() && n > 0 && (n < e.Min || n > e.Max) {
		return e, fmt.Errorf("-n %d is not within --min-np %d and --max-np %d", n, e.Min, e.Max)
	}
	return e, nil
}

// settleFrameworks reads --env. Scripts of other launchers give variables by an option of that name.
func (f *RunFlags) settleFrameworks() (err error) {
	f.Frameworks = frameworks.Auto
	for _, text := range f.Env {
		if strings.Contains(text, "=") {
			return fmt.Errorf("--env names frameworks; a variable is given with -x %s", text)
		}
	}
	if len(f.Env) > 0 {
		if f.Frameworks, err = frameworks.Parse(f.Env); err != nil {
			return fmt.Errorf("--env: %w", err)
		}
	}
	return nil
}
