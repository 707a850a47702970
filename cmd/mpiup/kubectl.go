package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/mpiup/mpiup/agent/reap"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/kubectl"
)

const kubectlHelp = `kubectl mpiup COMMAND JOB runs a command of mpiup for a job by its name, in the job's pod that launches, by your own right to exec.
Nothing runs in the cluster for it.

Usage:
  kubectl mpiup COMMAND [KIND/]JOB [flags] [-- arguments of mpiup COMMAND]

Examples:
  kubectl mpiup peers pi                               who is there, in the namespace of your kubeconfig
  kubectl mpiup ps mpijob/pi -n team --watch
  kubectl mpiup exec pi pi-worker-0 -- nvidia-smi      on a worker, by the job's launcher
  kubectl mpiup doctor pi -- -n 16 ./train             flags that kubectl has too stand behind --
  kubectl mpiup logs pi --rank 3 --level warn
  kubectl mpiup why pi                                 which rank failed first, and of what

Commands:
`

const kubectlFlags = `
Flags:
  -n, --namespace NAME, --context NAME, --kubeconfig FILE, --cluster NAME, --user NAME, --as NAME   as of kubectl
  -c, --container NAME   container of the pod (default: kubectl's choice, the first)
      --pod NAME         ask this pod of the job's (default: the one that launches, else one that runs)
      --mpiup PATH       mpiup in the container (default: as in the container's command, else on PATH)
  -i, --stdin, -t, --tty with exec, as of kubectl exec
  -f, --follow, -p, --previous   with logs, report and why, as of kubectl logs; support takes -p

A job is an MPIJob, TrainJob, JobSet, Job, LeaderWorkerSet, Volcano Job or StatefulSet.
`

// plugin is kubectl's plugin, at work.
type plugin struct {
	*process
	kubectl.Line
	super *reap.Supervisor
}

// kubectlApplet is kubectl's plugin: a command for a job by its name.
func kubectlApplet(p *process, args []string) int {
	l, err := kubectl.Parse(args)
	switch {
	case err != nil:
		tell(p.stderr, "kubectl mpiup:", fmt.Errorf("%w; kubectl mpiup --help shows how", err))
		return job.ExitUsage
	case l.Help:
		return helpOfKubectl(p)
	}
	k := &plugin{process: p, Line: l, super: reap.New(reap.Config{Log: slog.New(slog.DiscardHandler), GuardExe: guardExe()})}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = k.super.Run(ctx) }) // what could not be ended is kubectl, whose output says why
	end := func() { cancel(); running.Wait() }
	defer end()
	pod, note, err := k.pod(ctx)
	if err != nil {
		tell(p.stderr, "kubectl mpiup:", err)
		return job.ExitHosts
	}
	if note != "" {
		tell(p.stderr, "kubectl mpiup:", note)
	}
	switch {
	case k.Reads():
		return k.readLog(ctx, pod)
	case k.Collects():
		return k.collect(ctx, pod)
	}
	end()
	return k.become(k.Exec(pod))
}

func helpOfKubectl(p *process) int {
	var b strings.Builder
	b.WriteString(kubectlHelp)
	for _, name := range slices.Sorted(maps.Keys(kubectl.Commands)) {
		fmt.Fprintf(&b, "  %-10s %s\n", name, kubectl.Commands[name])
	}
	if _, err := io.WriteString(p.stdout, b.String()+kubectlFlags); err != nil {
		return job.ExitOutput
	}
	return 0
}

// maxPods is how long a list of pods may be, in bytes: an object of the API has at most 1.5 MiB, a pod some 10 KiB.
const maxPods = 256 << 20

// ask runs a kubectl for what it prints.
func (k *plugin) ask(ctx context.Context, words []string) (reap.Output, error) {
	out, err := reap.Collect(ctx, k.super, reap.Command{Argv: append([]string{"kubectl"}, words...), Env: k.env, Dir: dirOrRoot()}, maxPods)
	if err != nil {
		err = fmt.Errorf("kubectl %s: %w", words[0], err)
	}
	return out, err
}

// errLacks is a right that the user lacks.
type errLacks string

func (e errLacks) Error() string { return string(e) }

// get asks the API server for objects as JSON.
func (k *plugin) get(ctx context.Context, words []string) ([]byte, error) {
	out, err := k.ask(ctx, words)
	switch why := k.Lacks(out.Err); {
	case err != nil:
		return nil, err
	case why != "":
		return nil, errLacks(why)
	case out.Exit.Status() != 0:
		return nil, fmt.Errorf("kubectl: %s", cmp.Or(out.Err, out.Exit.String()))
	}
	return out.Out, nil
}

// list asks for the pods of one kind of job.
func (k *plugin) list(ctx context.Context, list kubectl.List) (kubectl.Found, error) {
	out, err := k.get(ctx, list.Words)
	if err != nil {
		return kubectl.Found{}, err
	}
	return k.Read(list, out)
}

// one asks for the pod of --pod alone, for who may not list.
func (k *plugin) one(ctx context.Context) (*kubectl.Pod, string, error) {
	out, err := k.get(ctx, k.One())
	if err != nil {
		return nil, "", err
	}
	found, err := k.ReadOne(out)
	if err != nil {
		return nil, "", err
	}
	return k.Choose(found)
}

// pod asks the API server for the pods of the job, and whether the user may do what he asks for, and chooses one.
func (k *plugin) pod(ctx context.Context) (*kubectl.Pod, string, error) {
	lists := k.Lists()
	found, errs := make([]kubectl.Found, len(lists)), make([]error, len(lists))
	var mayNot error
	byLabel := max(len(lists)-1, 1) // the last of several is of all pods, and seldom needed
	var asked sync.WaitGroup
	for i := range byLabel {
		asked.Go(func() { found[i], errs[i] = k.list(ctx, lists[i]) })
	}
	asked.Go(func() {
		if out, err := k.ask(ctx, k.May()); err == nil { // else it is tried
			if why := k.MayNot(string(out.Out)); why != "" {
				mayNot = errors.New(why)
			}
		}
	})
	asked.Wait()
	err := cmp.Or(append(errs, mayNot)...)
	switch lacks := errLacks(""); {
	case mayNot == nil && k.Pod != "" && errors.As(err, &lacks):
		return k.one(ctx)
	case err != nil:
		return nil, "", err
	}
	if byLabel < len(lists) && !slices.ContainsFunc(found, func(f kubectl.Found) bool { return len(f.Pods) > 0 }) {
		if found[byLabel], err = k.list(ctx, lists[byLabel]); err != nil {
			return nil, "", err
		}
	}
	return k.Choose(found)
}

// become executes kubectl in this process's place, so that it has the terminal and its signals.
func (k *plugin) become(words []string) int {
	path, err := lookPath(k.process, "/")("kubectl")
	if err == nil {
		err = syscall.Exec(path, append([]string{"kubectl"}, words...), k.env)
	}
	tell(k.stderr, "kubectl mpiup:", err)
	return job.ExitExec
}

// asking is where a command asks that is about a job in a cluster.
type asking struct {
	namespace, pod string
	words          []string // before those of mpiup
}

// collect makes a bundle here of the pod's log and of what its agent answers, if it still runs.
func (k *plugin) collect(ctx context.Context, pod *kubectl.Pod) int {
	log, err := os.CreateTemp("", "mpiup-log-")
	if err != nil {
		tell(k.stderr, "kubectl mpiup:", err)
		return job.ExitInternal
	}
	defer func() { _ = os.Remove(log.Name()) }()
	got, err := k.printLog(ctx, pod, log)
	log.Close()
	if err != nil {
		tell(k.stderr, "kubectl mpiup:", err)
		return job.ExitExec
	}
	<-got.Done()
	if got.Exit().Status() != 0 {
		return job.ExitHosts // it has said why
	}
	k.asking = &asking{pod.Metadata.Namespace, pod.Metadata.Name, append([]string{"kubectl"}, k.Exec(pod)...)}
	return k.command(slices.Concat([]string{k.Command}, k.Words, []string{log.Name()})...)
}

// printLog has kubectl write the pod's log to a file.
func (k *plugin) printLog(ctx context.Context, pod *kubectl.Pod, to *os.File) (*reap.Process, error) {
	return k.super.Start(ctx, reap.Command{Argv: append([]string{"kubectl"}, k.Logs(pod)...), Env: k.env, Dir: dirOrRoot(), Files: []*os.File{nil, to, k.stderr}})
}

// readLog has the command read the pod's log here.
func (k *plugin) readLog(ctx context.Context, pod *kubectl.Pod) int {
	r, w, err := os.Pipe()
	if err != nil {
		tell(k.stderr, "kubectl mpiup:", err)
		return job.ExitInternal
	}
	log, err := k.printLog(ctx, pod, w)
	w.Close()
	if err != nil {
		r.Close()
		tell(k.stderr, "kubectl mpiup:", err)
		return job.ExitExec
	}
	k.stdin = r
	code := k.command(append([]string{k.Command}, k.Words...)...)
	r.Close() // what it writes after that ends it
	<-log.Done()
	if end := log.Exit(); end.Status() != 0 && end.Signal != job.SIGPIPE { // which ends it where the command reads no more
		return job.ExitHosts // it has said why
	}
	return code
}
