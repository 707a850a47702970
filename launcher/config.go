package launcher

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/iof"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/launcher/report"
	"github.com/mpiup/mpiup/launcher/run"
	"github.com/mpiup/mpiup/launcher/runmetrics"
	"github.com/mpiup/mpiup/launcher/streams"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// Config is one run. cmd/mpiup fills it from flags and environment, read once.
type Config struct {
	reach.Reach
	Wishes
	DryRun  bool   // gather and place, print the plan to Stdout, start nothing
	Picture string // with DryRun, a file for the plan as a picture; "-": Stdout, in the place of the plan; "": none
	ShowMap bool   // print the plan to Stderr before the ranks are started
	// Preflight looks at the hosts of the plan first, and starts nothing where something fails.
	Preflight bool
	// MapOfOpenMPI prints the plan to Stdout instead, as Open MPI's mpirun does, by the rules of Policy.
	MapOfOpenMPI bool
	Command      Command // as another launcher of this run has it too, with Loss.Hold
	Spares       int     // hosts that get no ranks before another host is lost, with MaxRestarts

	Beside  time.Duration // ranks may start again so long before those on a host that is silent have surely ended
	Elastic job.Elastic   // how many ranks there may be, where that may change

	Output     iof.Config // Mode, Dir, ...; destinations, ranks and hosts are filled in by Run
	SpawnFiles string     // directory below which hostfiles may be that ranks name when they spawn; empty: none are read
	// Pty makes each rank's standard output a raw terminal, where it goes nowhere but to our own streams.
	Pty bool

	Report  report.Config
	Metrics *runmetrics.Metrics // nil: nobody is shown any
	Made    func(*iof.Sink)     // is told where the ranks' output goes, at each start; nil: nobody asks
	// Stopping is told when the run begins to end its ranks: why, and the exit code as it stands then. nil: nobody asks.
	Stopping func(why string, code int)
	// Judged is told how the run failed, when its ranks have ended. nil: nobody asks.
	Judged func(verdict.Verdict)

	Stdin       *os.File // nil: ranks read end of file
	StdinTarget string   // "0" (default), a rank, "all", "none"
	Signals     <-chan os.Signal
}

// Elsewhere is the cause of a context's end where another part of the job, which another launcher started, has failed: the
// run is ended with it, and with its exit code.
type Elsewhere struct {
	Sentence string // which part, and of what
	Code     int
}

func (e *Elsewhere) Error() string { return e.Sentence }

// Wishes are what the run itself needs to know of the user's wishes.
type Wishes = run.Wishes

// Values of Config.Universe that are no numbers, in the words of Hydra.
const (
	UniverseUnknown = run.UniverseUnknown
	UniverseSystem  = run.UniverseSystem
)

// Shares is the job's part of a larger one.
type Shares = run.Shares

// pty says that ranks write to terminals: Pty is set, and their output is for somebody who reads along. Files
// and JSON get pipes, to which programs write in larger pieces and without colours.
func (c *Config) pty() bool {
	o := &c.Output
	return c.Pty && o.Mode != iof.JSON && o.Dir == "" && o.Files == [2]iof.Pattern{}
}

// screen is the size of the terminal that ranks' terminals stand for: our own standard output; 0 x 0: it is none.
func (c *Config) screen() (rows, columns uint16) {
	file, ok := c.Stdout.(*os.File)
	if !ok || !c.pty() || !streams.IsTerminal(file) {
		return 0, 0
	}
	rows, columns, err := streams.TerminalSize(file)
	if err != nil { // it has gone
		return 0, 0
	}
	return rows, columns
}

// forRun is what the run itself needs to know.
func (c *Config) forRun() run.Config {
	rows, columns := c.screen()
	here := verdict.Start{}
	if c.Identity != nil { // else ranks have what this process has
		here = verdict.Start{Path: c.Env("PATH"), Venv: cmp.Or(c.Env("VIRTUAL_ENV"), c.Env("CONDA_PREFIX"))}
	}
	return run.Config{Wishes: c.Wishes, Rows: rows, Columns: columns, Grace: c.Grace, TermGrace: c.TermGrace, Version: c.Version, Pod: c.Pod, Here: here, Bare: !c.InPod(), Self: c.Self,
		Pty: c.pty(), Dumps: c.Report.Dir != "", SpawnFiles: c.SpawnFiles != "", Verbose: c.Log.Enabled(context.Background(), slog.LevelInfo)}
}
