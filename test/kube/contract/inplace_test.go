package contract

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// jobSetAgent stands for JobSet's in-place-restart-agent as the main container, which speaks to an API server: it says by a file
// that it is there (up), and is told by files to run the worker (go) or to end (stop). Each of a container's starts has a number.
const jobSetAgent = `cd /opt/agents; n=0; while [ -e "$HOSTNAME.up.$n" ]; do n=$((n+1)); done; : >"$HOSTNAME.up.$n"
until [ -e "$HOSTNAME.go.$n" ]; do [ ! -e "$HOSTNAME.stop.$n" ] || exit 1; sleep 0.1; done
(sh -c "$WORKER_COMMAND"; echo $? >"$HOSTNAME.ending.$n"; mv "$HOSTNAME.ending.$n" "$HOSTNAME.end.$n") &
until [ -e "$HOSTNAME.end.$n" ]; do [ ! -e "$HOSTNAME.stop.$n" ] || exit 1; sleep 0.1; done
exit "$(cat "$HOSTNAME.end.$n")"`

// jobSetAgents are the agents' side of the API server, of one JobSet: what cmd/in-place-restart-agent does in Reconcile.
type jobSetAgents struct {
	l        *lab
	set      types.NamespacedName
	dir      string           // of the files
	attempts map[string]int32 // by pod's host name and number of the start
}

// step lets each agent that is there act once.
func (a *jobSetAgents) step(ctx context.Context) error {
	starts, err := filepath.Glob(filepath.Join(a.dir, "*.up.*"))
	if err != nil {
		return err
	}
	var s jobset.JobSet
	if err := a.l.jobSets.Client.Get(ctx, a.set, &s); err != nil {
		return err
	}
	current, previous := s.Status.CurrentInPlaceRestartAttempt, s.Status.PreviousInPlaceRestartAttempt
	for _, start := range starts {
		host, number, _ := strings.Cut(filepath.Base(start), ".up.")
		attempt, known := a.attempts[host+number]
		if !known {
			if current != nil {
				attempt = *current + 1
			}
			if joined, err := a.join(ctx, host, attempt); !joined || err != nil {
				return err
			}
			a.attempts[host+number] = attempt
		}
		order := ""
		switch {
		case previous != nil && attempt <= *previous:
			order = "stop"
		case current != nil && attempt == *current:
			order = "go"
		default:
			continue
		}
		if err := os.WriteFile(filepath.Join(a.dir, host+"."+order+"."+number), nil, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// join puts a pod's attempt into its annotation, once JobSet's store has the pod.
func (a *jobSetAgents) join(ctx context.Context, host string, attempt int32) (bool, error) {
	var pods corev1.PodList
	if err := a.l.jobSets.Client.List(ctx, &pods, client.InNamespace(a.set.Namespace)); err != nil {
		return false, err
	}
	at := slices.IndexFunc(pods.Items, func(p corev1.Pod) bool { return p.Spec.Hostname == host })
	if at < 0 {
		return false, nil
	}
	return true, a.l.jobSets.Attempt(ctx, &pods.Items[at], attempt)
}

// run lets the agents act until ctx ends.
func (a *jobSetAgents) run(ctx context.Context) error {
	tick := time.NewTicker(second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := a.step(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// inPlace is jobset.yaml with JobSet's in-place restarts, and the directory of its agents. The first attempt's ranks stay.
func inPlace(t *testing.T) (*lab, *jobset.JobSet) {
	t.Helper()
	dir, err := os.MkdirTemp(built, "agents-")
	must(t, err)
	must(t, os.Chmod(dir, 0o777))
	images := running(t, `[ -e /opt/agents/again ] || { echo rank $MPIUP_RANK stays; exec sleep 1000; }
`+whereAmI)
	for _, image := range images {
		image.Files["/usr/local/bin/in-place-restart-agent"], image.Files["/opt/agents"] = script(t, jobSetAgent), dir
	}
	l := up(t, setting{jobSets: true, images: images})
	l.keygen()
	s := decode[jobset.JobSet](t, example(t, "jobset.yaml")[0])
	s.Namespace = ns
	s.Spec.FailurePolicy.RestartStrategy = jobset.InPlaceRestart
	job := &s.Spec.ReplicatedJobs[0].Template.Spec
	never, failed := int32(math.MaxInt32), batchv1.Failed // JobSet's webhook asks for them
	job.BackoffLimit, job.PodReplacementPolicy = &never, &failed
	job.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure // containers start again in their pods
	c := &job.Template.Spec.Containers[0]
	c.Env = append(c.Env, corev1.EnvVar{Name: "WORKER_COMMAND", Value: strings.Join(c.Command, " ")})
	c.Command = []string{"in-place-restart-agent"}
	l.submitted(s)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	agents := &jobSetAgents{l: l, set: client.ObjectKeyFromObject(s), dir: dir, attempts: map[string]int32{}}
	ended := make(chan error, 1)
	go func() { ended <- agents.run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	l.eventually("all ranks of the first attempt run", func() bool { return strings.Count(l.Output("pi-node-0-0"), " stays") == 6 })
	must(t, os.WriteFile(filepath.Join(dir, "again"), nil, 0o644))
	return l, s
}

// JobSet's in-place restart: when a container ends, its agents end all others, and all begin anew in the same pods, with the same
// names and addresses. The agents of mpiup that come are none of those that were there, and the launcher takes them.
func TestJobSetRestartsInPlace(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, killed string }{
		{"a pod that serves", "pi-node-0-1"},
		{"the pod that launches", "pi-node-0-0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l, s := inPlace(t)
			before := l.pods(jobset.JobSetNameKey + "=pi")
			must(t, l.Kill(tt.killed))
			l.eventually("the JobSet is complete", func() bool {
				must(t, l.jobSets.Client.Get(t.Context(), client.ObjectKeyFromObject(s), s))
				return s.Status.TerminalState != ""
			})
			if at := s.Status.CurrentInPlaceRestartAttempt; s.Status.TerminalState != string(jobset.JobSetCompleted) || s.Status.Restarts != 0 || at == nil || *at == 0 {
				t.Fatalf("the JobSet's status: %+v", s.Status)
			}
			on(t, l.Output("pi-node-0-0"), "pi-node-0-0", "pi-node-0-0", "pi-node-0-1", "pi-node-0-1", "pi-node-0-2", "pi-node-0-2")
			after := l.pods(jobset.JobSetNameKey + "=pi")
			if len(after) != 3 || len(before) != 3 {
				t.Fatalf("%d pods, then %d", len(before), len(after))
			}
			for _, p := range after {
				was := slices.IndexFunc(before, func(b corev1.Pod) bool { return b.UID == p.UID })
				if was < 0 || before[was].Status.PodIP != p.Status.PodIP || restarts(p) == 0 {
					t.Errorf("pod %s is another one, or its container was not started again: %+v", p.Name, p.Status)
				}
			}
		})
	}
}

// A container of a JobSet that kubelet alone restarts in place, beside a launcher that lives: with --max-restarts the agent that comes,
// of the same pod, name and address, takes the lost one's place, and no other container starts again.
func TestLauncherTakesARestartedContainer(t *testing.T) {
	t.Parallel()
	l := up(t, setting{jobSets: true, images: running(t, "[ $MPIUP_RESTART_COUNT = 1 ] || { echo rank $MPIUP_RANK stays; exec sleep 1000; }\n"+whereAmI)})
	l.keygen()
	s := decode[jobset.JobSet](t, example(t, "jobset.yaml")[0])
	s.Namespace = ns
	pod := &s.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec
	pod.RestartPolicy = corev1.RestartPolicyOnFailure
	c := &pod.Containers[0]
	c.Command = slices.Insert(c.Command, 2, "--max-restarts", "1", "--stdin", "none")
	l.submitted(s)
	l.eventually("all ranks of the first start run", func() bool { return strings.Count(l.Output("pi-node-0-0"), " stays") == 6 })
	must(t, l.Kill("pi-node-0-1"))
	l.eventually("the JobSet is complete", func() bool {
		must(t, l.jobSets.Client.Get(t.Context(), client.ObjectKeyFromObject(s), s))
		return s.Status.TerminalState != ""
	})
	on(t, l.Output("pi-node-0-0"), "pi-node-0-0", "pi-node-0-0", "pi-node-0-1", "pi-node-0-1", "pi-node-0-2", "pi-node-0-2")
	for _, p := range l.pods(jobset.JobSetNameKey + "=pi") {
		want := int32(0)
		if p.Spec.Hostname == "pi-node-0-1" {
			want = 1
		}
		if restarts(p) != want {
			t.Errorf("the container of %s was started again %d times, not %d", p.Spec.Hostname, restarts(p), want)
		}
	}
}
