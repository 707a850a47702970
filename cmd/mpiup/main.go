// Command mpiup starts MPI jobs inside Kubernetes pods without ssh: one static binary that is
// the worker's agent, the launcher's run and exec, and its own guard. Each subcommand has a
// file of its own; flags and environment are read here and nowhere else.
package main

import (
	"context"
	"crypto/fips140"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mpiup/mpiup/agent/reap/program"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/early"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/cli"
	"github.com/mpiup/mpiup/launcher/iof"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/spf13/cobra"
)

// version is set by the linker (Makefile).
var version = "devel"

func main() {
	os.Exit(run(os.Args, os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

// process is what a subcommand knows of the process it runs in.
type process struct {
	args           []string // of the subcommand, its name first
	env            []string
	stdin          *os.File
	stdout, stderr *os.File
	host           string              // --name, else the host's name
	ready          func()              // called when an agent can be reached; nil: nobody waits
	code           int                 // exit code, set by the subcommand
	keys           []identity.NamedKey // that ssh's options and files name
	programs       program.Finder
	whole          bool                     // --help --all
	shown          error                    // of help that could not be written
	asking         *asking                  // of a command about a job in a cluster; nil: it asks from here
	up             *up                      // nil: this pod's command is not that of all of the job's
	sink           atomic.Pointer[iof.Sink] // of the run that this process launches
	last           func()                   // is called when all else has ended, this process's agent too
	early          chan os.Signal           // see listenEarly; nil: nobody listens before the command does
}

func (p *process) getenv(name string) string {
	v, _ := p.lookup(name)
	return v
}

func (p *process) lookup(name string) (string, bool) {
	for _, kv := range p.env {
		if len(kv) > len(name) && kv[len(name)] == '=' && kv[:len(name)] == name {
			return kv[len(name)+1:], true
		}
	}
	return "", false
}

func run(args, env []string, stdin, stdout, stderr *os.File) int {
	p := &process{env: env, stdin: stdin, stdout: stdout, stderr: stderr, last: func() {}}
	if p.host, _ = os.Hostname(); p.host == "(none)" {
		p.host = "localhost" // its kernel was given no name (linux/uts.h)
	}
	defer func() { p.last() }()
	p.listenEarly(args)
	if a, ok := applets()[strings.TrimPrefix(filepath.Base(args[0]), "-")]; ok { // a login shell's hyphen does not count
		return a.run(p, args[1:])
	}
	return p.command(args[1:]...)
}

// command runs a subcommand and returns the process's exit code.
func (p *process) command(args ...string) int {
	named := ""
	if len(args) > 0 {
		named = args[0]
	}
	root := rootCommand(p, named)
	if at := slices.Index(args, "--help"); at >= 0 && at+1 < len(args) && args[at+1] == "--all" {
		args, p.whole = slices.Delete(slices.Clone(args), at+1, at+2), true
	}
	p.args = oneDash(root, args)
	root.SetArgs(p.args)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	stderr := p.stderr
	err := root.Execute()
	if err == nil {
		err = p.shown
	}
	var ended *exitError
	switch {
	case err == nil:
		return p.code
	case errors.As(err, &ended):
		if ended.err != nil {
			tell(stderr, "mpiup:", strings.ReplaceAll(ended.Error(), "\n", "\nmpiup: "))
		}
		return ended.code
	}
	var file *fs.PathError
	if errors.As(err, &file) && file.Op == "write" {
		visible.Fprintln(stderr, "mpiup: output could not be written:", err)
		return job.ExitOutput
	}
	// What remains is cobra's: unknown commands and flags.
	if meant := cli.Meant(named, append(slices.Sorted(maps.Keys(commands())), "help")); meant != "" && commands()[named] == nil {
		tell(stderr, fmt.Sprintf("mpiup: %.60q is no command; did you mean: %.80s", named, meant))
		return job.ExitUsage
	}
	if command := commands()[named]; command != nil { // of words that nobody takes
		if err = fmt.Errorf("%w: %s takes no such word", err, named); command(new(process)).Flags().Lookup("host") != nil {
			err = fmt.Errorf("%w; hosts stand behind --host, as in --host w0,w1", err)
		}
	}
	tell(stderr, "mpiup:", err)
	fmt.Fprintln(stderr, "mpiup: `mpiup --help` lists the commands, `mpiup COMMAND --help` their flags")
	return job.ExitUsage
}

// tell prints a line of mpiup's own. What it speaks of may be anybody's text.
func tell(w io.Writer, what ...any) { visible.Fprint(w, fmt.Sprintln(what...)) }

// oneDash lets the flags of the command in args be written with one dash ("-np 4").
func oneDash(root *cobra.Command, args []string) []string {
	if len(args) == 0 {
		return args
	}
	c, _, err := root.Find(args[:1])
	if err != nil || c == root {
		return args
	}
	return append(args[:1:1], cli.Dashes(c.Flags(), args[1:])...)
}

// exitError ends the process with a code; err, if any, is printed.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return fmt.Sprint(e.err) }

func (e *exitError) Unwrap() error { return e.err }

func usage(err error) error { return &exitError{job.ExitUsage, err} }

// commands are those of mpiup, by name.
func commands() map[string]func(*process) *cobra.Command {
	return map[string]func(*process) *cobra.Command{
		"run": runCommand, "up": upCommand, "launcher": launcherCommand, "agent": agentCommand, "exec": execCommand, "peers": peersCommand,
		"ps": psCommand, "top": topCommand, "stacks": stacksCommand, "shutdown": shutdownCommand, "topo": topoCommand, "doctor": doctorCommand,
		"verdict": verdictCommand, "why": whyCommand, "logs": logsCommand, "env": envCommand, "report": reportCommand, "keygen": keygenCommand,
		"install": installCommand, "version": versionCommand, "check-image": checkImageCommand, "support": supportCommand, "trial": trialCommand,
	}
}

// commandsOf is the command of that name alone, whose flags are many enough; without one, all commands.
func commandsOf(p *process, name string) (list []*cobra.Command) {
	if one := commands()[name]; one != nil {
		return []*cobra.Command{one(p)}
	}
	for _, c := range commands() {
		list = append(list, c(p))
	}
	return append(list, appletCommands(p)...)
}

// rootCommand is mpiup, with the command that is named, or, where none is, with all.
func rootCommand(p *process, named string) *cobra.Command {
	var showVersion bool
	root := &cobra.Command{
		Use:   "mpiup",
		Short: "Start MPI jobs inside Kubernetes pods without ssh",
		Long: `mpiup starts MPI jobs inside Kubernetes pods without ssh.

Workers run "mpiup agent"; "mpiup run" on the launcher starts ranks on them and ends
with the job's exit code. With no hosts, mpiup run starts the ranks on this machine.`,
		Example: `  mpiup run -n 4 ./a.out                        on this machine
  mpiup run --host w0:8,w1:8 -n 16 ./a.out      on two workers that run mpiup agent
  mpiup run -n 16 ./a.out                       in an MPIJob: hosts come from the operator
  mpiup exec w0 -- nvidia-smi                   one command on one worker
  mpiup peers                                   who is there`,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(c *cobra.Command, _ []string) error {
			if showVersion {
				return printVersion(p.stdout)
			}
			return c.Help()
		},
	}
	// Not cobra's own, whose template is 3 MB of binary: text/template keeps the linker from leaving methods out.
	root.Flags().BoolVarP(&showVersion, "version", "V", false, "print the version")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return usage(cli.FlagError(c.Flags(), err)) })
	root.AddCommand(commandsOf(p, named)...)
	root.SetHelpCommand(helpCommand(p))
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { p.shown = helpOf(p, c, extent(p.args, p.whole)) })
	return root
}

// untilSignal is a context that ends with the signals that end a daemon.
func untilSignal() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT)
}

// listenEarly takes signals to end from the process's first moment on, where its command is one that takes them later (untilEnded, passedOn). Go
// would end a container's first process with 2, which is nobody's code: its runtime sends the signal again, as the kernel's own, which the kernel
// keeps from a PID 1, and exits (dieFromSignal, src/runtime/signal_unix.go).
func (p *process) listenEarly(args []string) {
	name := strings.TrimPrefix(filepath.Base(args[0]), "-")
	if _, applet := applets()[name]; !applet && len(args) > 1 {
		name = args[1]
	}
	if slices.Contains([]string{"agent", "sshd", "run", "up", "launcher", "horovodrun", "torchrun", "orterun", "prterun"}, name) ||
		strings.HasPrefix(name, "mpirun") || strings.HasPrefix(name, "mpiexec") {
		if p.early = early.Signals(); p.early == nil {
			p.early = make(chan os.Signal, 1)
			signal.Notify(p.early, syscall.SIGTERM, syscall.SIGINT)
		}
		return
	}
	if since := early.Signals(); since != nil { // a command that never takes one ends by it
		signal.Stop(since)
		select {
		case s := <-since:
			number, _ := s.(syscall.Signal)
			os.Exit(128 + int(number))
		default:
		}
	}
}

// earlier is a signal that came before the command listened, which it does now; nil: none came.
func (p *process) earlier() os.Signal {
	if p.early == nil {
		return nil
	}
	signal.Stop(p.early)
	select {
	case s := <-p.early:
		return s
	default:
		return nil
	}
}

// untilEnded is untilSignal for a command that listens late.
func (p *process) untilEnded() (context.Context, context.CancelFunc) {
	ctx, cancel := untilSignal()
	if p.earlier() != nil {
		cancel()
	}
	return ctx, cancel
}

// twice is how soon after the first signal a second is the same wish: timeout(1) signals its child, then their process group.
const twice = time.Second

// untilTold is a context that the first signal to end ends, which is its cause. Later ones have their usual effect.
func untilTold() (context.Context, func()) {
	signals, stop := make(chan os.Signal, 1), make(chan struct{})
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) { // as by nohup
			signal.Notify(signals, s)
		}
	}
	ctx, end := context.WithCancelCause(context.Background())
	var waits sync.WaitGroup
	waits.Go(func() {
		select {
		case s := <-signals:
			end(reach.GotSignal(s.(syscall.Signal)))
		case <-stop:
			return
		}
		select {
		case <-time.After(twice):
			signal.Stop(signals)
		case <-stop:
		}
	})
	return ctx, func() { close(stop); waits.Wait(); signal.Stop(signals); end(nil) }
}

func versionCommand(p *process) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  mpiup version",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return printVersion(p.stdout)
		},
	}
}

func printVersion(w io.Writer) error {
	_, err := visible.Fprintf(w, "mpiup %s (protocol %d, %s, %s/%s%s)\n",
		version, apiv1.Protocol, runtime.Version(), runtime.GOOS, runtime.GOARCH, fipsMode())
	return err
}

// fipsMode says whose cryptography is in use, where that is FIPS 140-3's.
func fipsMode() string {
	if !fips140.Enabled() {
		return ""
	}
	module := "module " + fips140.Version()
	if fips140.Version() == "latest" { // Go's own, as it is in this Go
		module = "module not certified, see make fips"
	}
	if fips140.Enforced() {
		return ", FIPS 140-3 only, " + module
	}
	return ", FIPS 140-3, " + module
}
