package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/iof"
	"github.com/spf13/pflag"
)

// nativeFlags are the flags of mpiup run that the image's own launcher has too, or that concern the
// way to the hosts. Another is an error with --mpi native, since nobody would do it.
var nativeFlags = []string{"np", "export", "wdir", "host", "hostfile", "size", "mpi", "verbose", "key", "tls-dir", "job",
	"ppn", "map-by", "oversubscribe", "timeout", "tag-output", "output"}

// Native is the command line for Hydra's launcher, or Open MPI's, that a run of mpiup describes, and
// variables for it. given are the flags of which f was read; hosts may be nil. Check has passed.
func (f *RunFlags) Native(hydra bool, given *pflag.FlagSet, apps []job.App, hosts []hostlist.Entry) (args, env []string, err error) {
	given.Visit(func(flag *pflag.Flag) {
		if err == nil && !slices.Contains(nativeFlags, flag.Name) {
			err = fmt.Errorf("--%s is mpiup's own, and with --mpi native another launcher starts the ranks: leave one of them out", flag.Name)
		}
	})
	if err != nil {
		return nil, nil, err
	}
	if args, err = f.nativeArgs(hydra); err == nil {
		env, err = f.nativeEnv()
	}
	if err != nil {
		return nil, nil, err
	}
	if list := nativeHosts(hydra, hosts); list != "" {
		args = append(args, either(hydra, "-hosts", "-H"), list)
	}
	for i, a := range apps {
		if i > 0 {
			args = append(args, ":")
		}
		args = append(args, nativeApp(hydra, a)...)
	}
	return args, env, nil
}

func either(hydra bool, hydras, openMPIs string) string {
	if hydra {
		return hydras
	}
	return openMPIs
}

// nativeArgs are options for all programs.
func (f *RunFlags) nativeArgs(hydra bool) (args []string, err error) {
	switch {
	case f.Output.Mode == iof.JSON:
		return nil, errors.New("--output json is mpiup's own, and with --mpi native another launcher shows the output")
	case f.Output.Mode == iof.Tag:
		args = append(args, either(hydra, "-l", "--tag-output"))
	}
	switch {
	case f.Policy.PerNode > 0:
		n := strconv.Itoa(f.Policy.PerNode)
		args = append(args, either(hydra, "-ppn", "--map-by"), either(hydra, n, "ppr:"+n+":node"))
	case f.Policy.Binding.Map.Policy == "node":
		args = append(args, either(hydra, "-ppn", "--map-by"), either(hydra, "1", "node"))
	}
	if f.Policy.Oversubscribe && !hydra { // which knows no limit
		args = append(args, "--oversubscribe")
	}
	return args, nil
}

// nativeEnv is what the way to the hosts, and both families, are told by variables.
func (f *RunFlags) nativeEnv() (env []string, err error) {
	for _, v := range []struct{ name, path string }{{"MPIUP_KEY", f.KeyFile}, {"MPIUP_TLS_DIR", f.TLSDir}} {
		if v.path == "" {
			continue
		}
		path, err := filepath.Abs(v.path)
		if err != nil {
			return nil, err
		}
		env = append(env, v.name+"="+path)
	}
	if f.Scope != "" {
		env = append(env, "MPIUP_JOB="+f.Scope)
	}
	if f.Timeout > 0 {
		if f.Timeout%time.Second != 0 {
			return nil, fmt.Errorf("--timeout %v: other launchers count whole seconds", f.Timeout)
		}
		env = append(env, "MPIEXEC_TIMEOUT="+strconv.Itoa(int(f.Timeout/time.Second)))
	}
	return env, nil
}

func nativeHosts(hydra bool, hosts []hostlist.Entry) string {
	names := make([]string, len(hosts))
	for i, h := range hosts {
		names[i] = h.Name
		switch {
		case h.Given:
			names[i] += ":" + strconv.Itoa(h.Slots)
		case !hydra:
			names[i] += ":*" // as many as the host has
		}
	}
	return strings.Join(names, ",")
}

func nativeApp(hydra bool, a job.App) (args []string) {
	if a.N > 0 {
		args = append(args, "-n", strconv.Itoa(a.N))
	}
	if a.WdirExplicit {
		args = append(args, "-wdir", a.Wdir)
	}
	for _, kv := range a.Env {
		if name, value, _ := strings.Cut(kv, "="); hydra {
			args = append(args, "-env", name, value)
		} else {
			args = append(args, "-x", kv)
		}
	}
	return append(args, a.Argv...)
}
