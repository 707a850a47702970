package cli

import (
	"cmp"
	"slices"

	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
)

// IdentityFlags say by which secret a process is known; they mean the same in every command.
type IdentityFlags struct {
	identity.Options      // of the key, TLS and the job's name
	Spare            bool // no flag: the command can do something without a secret, so one that cannot be had ends nothing before it
}

// Register adds the flags to fs.
func (f *IdentityFlags) Register(fs *pflag.FlagSet) {
	valueVar(fs, &f.KeyFile, "key", "", text("name a file"), "`FILE` with the job's secret (default: $MPIUP_KEY, then where the operators mount it)")
	valueVar(fs, &f.TLSDir, "tls-dir", "", text("name a directory"),
		"use tls.crt, tls.key and ca.crt of `DIR` instead of a shared secret (default: $MPIUP_TLS_DIR, else the secret)")
	valueVar(fs, &f.Scope, "job", "", text("name a name"), "`NAME` that separates jobs with one secret (default: $MPIUP_JOB, then the operator's job and namespace)")
	fs.BoolVar(&f.Insecure, "insecure", false, "no secret: agents on this machine's loopback addresses only")
	identityFlags.in(fs)
}

// Check finds flags that contradict each other.
func (f *IdentityFlags) Check() error {
	switch {
	case f.Insecure && (f.KeyFile != "" || f.TLSDir != ""):
		return fmt.Errorf("--insecure is for having no secret; leave it out, or --key and --tls-dir")
	case f.KeyFile != "" && f.TLSDir != "":
		return fmt.Errorf("--key and --tls-dir are two ways to prove who is who; give one")
	}
	return nil
}

// HostFlags say which agents are meant and how they are reached.
type HostFlags struct {
	IdentityFlags
	Hosts    []string // values of --host, each "h[:slots],..."
	Hostfile string   // "": none given
	Size     int      // how many hosts the job has; 0: not given
	Wait     time.Duration
}

// Register adds the flags to fs, those of IdentityFlags with them.
func (f *HostFlags) Register(fs *pflag.FlagSet) {
	fs.SortFlags = false
	fs.SetNormalizeFunc(withAliases)
	addVar(fs, &f.Hosts, "host", "H", understood(hostlist.ParseList), "the hosts, `h[:slots],...`, w[0-3]:8 is four of them; may be repeated (default: $MPIUP_HOSTS, the hostfile, what the operator tells, or without a secret this machine alone)")
	valueVar(fs, &f.Hostfile, "hostfile", "", text("name a file"),
		"`FILE` with a host, or hosts as w[0-3], a line: \"h\", \"h slots=N\" or \"h:N\" (default: /etc/mpi/hostfile, if it exists)")
	valueVar(fs, &f.Size, "size", "", parseCount, "the job has `N` hosts, which Kubernetes does not tell its pods: the run waits for so many and has no fewer (default: what the pod is told, PET_NNODES, or as many as -n needs)")
	DurationVar(fs, &f.Wait, "wait", job.DefaultWait, false,
		"wait `TIME` for all hosts to answer; 5 is 5 seconds, 5m and 1h30m are known too; jobs read $MPIUP_WAIT where it is not given")
	hostFlags.in(fs)
	f.IdentityFlags.Register(fs)
}

// Check finds flags that contradict each other.
func (f *HostFlags) Check() error {
	if len(f.Hosts) > 0 && f.Hostfile != "" {
		return fmt.Errorf("--host and --hostfile both name the hosts; give one")
	}
	return f.IdentityFlags.Check()
}

// Entries is the hosts of --host or --hostfile, as many as --size says; nil if neither was given.
func (f *HostFlags) Entries() (entries []hostlist.Entry, err error) {
	return f.entries("--host", "--hostfile ")
}

// EntriesOr is Entries, and where no flag names a host those of a variable's value: a list as of --host, or a hostfile.
func (f *HostFlags) EntriesOr(variable, value string) ([]hostlist.Entry, error) {
	if value == "" || len(f.Hosts) > 0 || f.Hostfile != "" {
		return f.Entries()
	}
	of := *f
	if info, err := os.Stat(value); err == nil && info.Mode().IsRegular() {
		of.Hostfile = value
	} else {
		of.Hosts = []string{value}
	}
	return of.entries(variable, variable+" ")
}

func (f *HostFlags) entries(list, file string) (entries []hostlist.Entry, err error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	by := list
	switch {
	case f.Hostfile != "":
		by = file + f.Hostfile
		entries, err = hostlist.ReadFile(f.Hostfile, hostlist.Own)
	case len(f.Hosts) > 0:
		if entries, err = hostlist.ParseList(strings.Join(f.Hosts, ",")); err != nil {
			err = fmt.Errorf("%s: %w", list, err)
		}
	default:
		return nil, nil
	}
	if n := len(entries); err == nil && f.Size > 0 && n != f.Size {
		return nil, fmt.Errorf("--size %d, and %s names %s: name as many, or leave --size out", f.Size, by, visible.Count(n, "host"))
	}
	return entries, err
}

// LeaseFlags are the times after which one side gives the other up.
type LeaseFlags struct {
	LauncherTimeout time.Duration
	NodeTimeout     time.Duration
	Grace           time.Duration
	TermGrace       time.Duration // 0: not given
}

// DefaultLastCall is how long an elastic job waits for more hosts when it could begin, as torchrun does.
const DefaultLastCall = 30 * time.Second

// DefaultWatch is for how long a rank must hold up the others to be named, where nobody says.
const DefaultWatch = time.Minute

// DefaultStall is after how long a run is told of that hangs, where nobody says.
const DefaultStall = 5 * time.Minute

// DefaultLease is what the flags say when none is given.
func DefaultLease() LeaseFlags {
	return LeaseFlags{LauncherTimeout: job.DefaultLease, NodeTimeout: job.DefaultNodeTimeout, Grace: job.DefaultGrace}
}

// Register adds the flags to fs.
func (f *LeaseFlags) Register(fs *pflag.FlagSet) {
	DurationVar(fs, &f.LauncherTimeout, "launcher-timeout", job.DefaultLease, false,
		"hosts keep the ranks of a launcher that is silent for `TIME`; with --max-restarts, --node-timeout where that is less")
	DurationVar(fs, &f.NodeTimeout, "node-timeout", job.DefaultNodeTimeout, false, "give a host up that is silent for `TIME`")
	DurationVar(fs, &f.Grace, "grace", job.DefaultGrace, false, "between SIGTERM and SIGKILL ranks have `TIME`")
	timeFlags.in(fs)
}

// minSilence is the shortest silence that may be judged: heartbeats come once a second, and a
// busy machine delays them.
const minSilence = time.Second

// Check finds times that cannot work.
func (f *LeaseFlags) Check() error {
	return cmp.Or(tooShort("--launcher-timeout", f.LauncherTimeout), tooShort("--node-timeout", f.NodeTimeout))
}

func tooShort(flag string, silence time.Duration) error {
	if silence >= minSilence {
		return nil
	}
	return fmt.Errorf("%s %v is too short to tell silence from a busy machine; use %v or more", flag, silence, minSilence)
}

// Given are the flags that a command line has but some, as another command takes them.
func Given(fs *pflag.FlagSet, but ...string) (list []string) {
	fs.Visit(func(f *pflag.Flag) {
		if slices.Contains(but, f.Name) {
			return
		}
		for _, text := range givenTexts(f.Value) {
			list = append(list, "--"+f.Name+"="+text)
		}
	})
	return list
}

// givenTexts are the texts that a flag's value was read from, one for each time that the flag stands again.
func givenTexts(v pflag.Value) []string {
	switch v := v.(type) {
	case *readText:
		return v.texts
	case pflag.SliceValue:
		return v.GetSlice()
	}
	return []string{v.String()}
}
