package main

import (
	"bytes"
	"cmp"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/secret"
	"github.com/mpiup/mpiup/internal/typed"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// handOver gives programs what of this process's own environment may have been set for this command and goes along by itself, under what the command
// line says (docs/environment.md). The rest is what hosts are asked for.
func handOver(own []string, apps []job.App) []typed.Variable {
	since := sinceBegan(own)
	goes := going(since)
	for i := range apps {
		apps[i].Env = line.Distinct(slices.Concat(goes, apps[i].Env))
	}
	return unsent(own, apps, since)
}

// sinceBegan is what of this process's own environment may have been set for this command.
func sinceBegan(own []string) []string {
	before, known := began("/", "self")
	if !known {
		return nil
	}
	return typed.Since(own, before)
}

// going are those variables that go along by themselves.
func going(since []string) (list []string) {
	for _, kv := range since {
		if name, _, _ := strings.Cut(kv, "="); typed.Goes(name) && !secret.IsVariable(kv) && len(kv) <= line.MaxVar {
			list = append(list, kv)
		}
	}
	return list
}

// unsent are the variables that may have been set for this command, those that would go along if they were not older, and those of this
// container's manifest, as far as no program is given them. Those of a rank are its run's, and older ones no wish of its own. What is most
// likely a wish comes first: hosts are asked for so many and no more.
func unsent(own []string, apps []job.App, since []string) (list []typed.Variable) {
	given := func(name string) bool {
		return !slices.ContainsFunc(apps, func(a job.App) bool {
			return !slices.ContainsFunc(a.Env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
		})
	}
	rank := slices.ContainsFunc(own, func(kv string) bool { return strings.HasPrefix(kv, "MPIUP_RANK=") })
	manifest := typed.Manifest(own)
	for _, kv := range own {
		name, _, ok := strings.Cut(kv, "=")
		young, goes := slices.Contains(since, kv), typed.Goes(name)
		older := !rank && (goes || slices.Contains(manifest, kv))
		if ok && (young || older) && !given(name) {
			list = append(list, typed.Variable{Text: kv, Secret: func() bool { return secret.IsVariable(kv) }, Since: young, Presence: !young && !goes})
		}
	}
	slices.SortFunc(list, func(a, b typed.Variable) int {
		return cmp.Or(side(!a.Since)-side(!b.Since), side(a.Presence)-side(b.Presence), strings.Compare(a.Text, b.Text))
	})
	return list
}

// side is 1 where something comes behind.
func side(behind bool) int {
	if behind {
		return 1
	}
	return 0
}

// tellKept names what may have been set for this command where another launcher starts the ranks, and hosts are not asked.
func tellKept(w io.Writer, list []typed.Variable) {
	var names []string
	for _, v := range list {
		if v.Since {
			names = append(names, v.Name())
		}
	}
	if names != nil {
		const width = 80
		tell(w, "mpiup:", "set in this session and not handed to other hosts: "+visible.Short(names, width)+"; -x NAME hands one over")
	}
}

// maxEnviron is how much of a process's environment is read, in bytes; the kernel allows 6 MiB of arguments and environment in all
// (execve(2)).
const maxEnviron = 6 << 20

// began is the environment with which the first of a process's ancestors began that are of its session: what its terminal, its container
// or its script had before anything was typed or exported there. An ancestor whose environment cannot be read, as another user's, ends the
// way up. false: nobody can tell. So it is of a process without a parent in sight, as a container's first, and of one whose own parent
// has ended: PID 1 counts only in its own session. Who comes by kubectl exec came with PID 1's.
//
//	bash (session's first: NCCL_DEBUG is not there) ─▶ NCCL_DEBUG=INFO timeout 60 ... ─▶ mpiup
func began(root, pid string) (env []string, known bool) {
	_, parent, session, ok := kin(root, pid)
	switch {
	case !ok:
		return nil, false
	case parent == "0" && entered(root): // by kubectl exec, with the container's own
		return environ(root, "1")
	}
	const most = 64 // ancestors; the kernel may give a number anew while we read
	for at, n := parent, 0; at != "0" && n < most; n++ {
		_, up, of, ok := kin(root, at)
		if !ok || of != session && (n > 0 || at == "1") {
			break
		}
		older, readable := environ(root, at)
		if !readable {
			break
		}
		env, known = older, true
		if of != session {
			break
		}
		at = up
	}
	if _, again, _, ok := kin(root, pid); !ok || again != parent { // it ended meanwhile, and its number may be another's
		return nil, false
	}
	return env, known
}

// environ is what a process began with (proc_pid_environ(5)); false: it cannot be read, or there is nothing.
func environ(root, pid string) (env []string, ok bool) {
	text, err := bounded.File(filepath.Join(root, "proc", pid, "environ"), maxEnviron)
	if err != nil || len(text) == 0 {
		return nil, false
	}
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00"), true
}

// kin are the number of a process, its parent's and that of the session that it is of (proc_pid_stat(5)).
func kin(root, pid string) (own, parent, session string, ok bool) {
	stat, err := os.ReadFile(filepath.Join(root, "proc", pid, "stat")) // a line of the kernel's
	i := bytes.LastIndexByte(stat, ')')                                // the command before it may have blanks and parentheses
	if err != nil || i < 0 {
		return "", "", "", false
	}
	own, _, _ = strings.Cut(string(stat), " ")
	f := strings.Fields(string(stat[i+1:]))
	if len(f) < 4 {
		return "", "", "", false
	}
	for _, n := range []string{own, f[1], f[3]} {
		if _, err := strconv.ParseUint(n, 10, 31); err != nil {
			return "", "", "", false
		}
	}
	return own, f[1], f[3], true
}
