package cluster

import (
	"strings"
	"testing"
)

// steady is mpijob.yaml with ranks that work until they are ended. "$@" are more changes of the manifest.
func steady(t *testing.T, s *space, oldnew ...string) {
	t.Helper()
	s.apply(changedTo(t, example(t, "mpijob.yaml"), append([]string{`"/opt/pi"`, `"/opt/steady", "600"`}, oldnew...)...))
	s.works(launcher(s))
}

// works waits until a launcher's container that runs has lines of all four ranks: while it waits to start again, kubectl logs shows
// those of its last attempt.
func (s *space) works(launcher string) {
	s.Helper()
	s.until("all ranks of "+launcher+" work", func() bool {
		if s.pod(launcher).container().State.Running == nil {
			return false
		}
		out, err := s.kubectl("", "logs", launcher, "--tail=400")
		if err != nil {
			return false
		}
		for _, rank := range []string{"\n0 ", "\n1 ", "\n2 ", "\n3 "} {
			if !strings.Contains("\n"+out, rank) {
				return false
			}
		}
		return true
	})
}

// next waits for the launcher's pod that comes after one that has failed.
func (s *space) next(failed string) string {
	s.Helper()
	s.until("there is another launcher", func() bool { return s.launcher() != failed })
	return s.launcher()
}

// verdict waits for the failed attempt of the launcher, and checks that what an administrator sees names the cause: the
// termination message (kubectl describe prints it) and the log of the attempt.
func (s *space) verdict(launcher string, code int, words ...string) {
	s.Helper()
	var last *ended
	s.until("the launcher's attempt has ended", func() bool {
		c := s.pod(launcher).container()
		if last = c.State.Terminated; last == nil {
			last = c.LastState.Terminated
		}
		return last != nil
	})
	described, log := s.k("describe", "pod", launcher), ""
	s.until("kubectl logs has the verdict", func() bool {
		previous, _ := s.kubectl("", "logs", launcher, "--tail=20", "--previous") // there is none before the container starts again
		now, _ := s.kubectl("", "logs", launcher, "--tail=20")
		log = previous + now
		return strings.Contains(log, "; more: mpiup help ")
	})
	s.say("code %d; termination message: %s", last.ExitCode, last.Message)
	if last.ExitCode != code {
		s.Errorf("the launcher's code is %d, want %d", last.ExitCode, code)
	}
	for _, word := range words {
		for where, text := range map[string]string{"termination message": last.Message, "kubectl describe": described, "kubectl logs": log} {
			if !strings.Contains(text, word) {
				s.Errorf("%s lacks %q:\n%s", where, word, text)
			}
		}
	}
}

// last waits until a pod is gone that is being deleted, and checks what it showed at last: then it is in nobody's sight but of
// who collects logs.
func (s *space) last(p pod, code int, words string) {
	s.Helper()
	s.until(p.Metadata.Name+" is gone", func() bool { return s.pod(p.Metadata.Name).Metadata.UID != p.Metadata.UID })
	s.mu.Lock()
	defer s.mu.Unlock()
	switch e := s.gone[p.Metadata.UID].container().State.Terminated; {
	case e == nil:
		s.Errorf("%s never showed how it ended", p.Metadata.Name)
	case e.ExitCode != code || !strings.Contains(e.Message, words):
		s.Errorf("%s ended with %s, want %d and %q", p.Metadata.Name, e.line(), code, words)
	}
}

func TestAgentKilled(t *testing.T) {
	t.Parallel()
	s := namespace(t)
	steady(t, s)
	l := launcher(s)
	s.killed("pi-worker-1", "mpiup agent")
	s.verdict(l, 248, "pi-worker-1")
	s.works(s.next(l))
}

func TestWorkerDeleted(t *testing.T) {
	t.Parallel()
	s := namespace(t)
	steady(t, s)
	l := launcher(s)
	s.k("delete", "pod", "pi-worker-1", "--wait=false")
	s.say("pi-worker-1 is deleted")
	s.verdict(l, 249, "pi-worker-1")
	s.works(s.next(l))
}

func TestLauncherDeleted(t *testing.T) {
	t.Parallel()
	s := namespace(t)
	steady(t, s)
	first := s.pod(launcher(s))
	s.k("delete", "pod", first.Metadata.Name, "--wait=false")
	s.say("the launcher is deleted")
	s.last(first, 249, "got SIGTERM: its pod is being taken away")
	s.until("there is another launcher", func() bool { return s.pod("pi-launcher", first.Metadata.UID).Metadata.Name != "" })
	s.works(s.pod("pi-launcher", first.Metadata.UID).Metadata.Name)
}

// The node of a worker is drained: the pod goes as Kubernetes takes pods away, and its successor comes up on the other node.
func TestNodeDrained(t *testing.T) {
	t.Parallel()
	s := namespace(t)
	const node = "node2"
	s.k("uncordon", node) // which a run that was killed has left without pods
	// A worker on each node that takes pods, and a launcher that keeps to one of them. Other tests' jobs are called pi, too.
	const worker = "        spec:\n          terminationGracePeriodSeconds: 30\n          containers:\n          - name: worker\n"
	const apart = "        metadata: {labels: {example.com/drained: \"\"}}\n        spec:\n          topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, nodeTaintsPolicy: Honor, labelSelector: {matchLabels: {training.kubeflow.org/job-role: worker}}}]\n"
	const launched = "        spec:\n          terminationGracePeriodSeconds: 30\n          containers:\n          - name: launcher\n"
	steady(t, s, worker, apart+strings.TrimPrefix(worker, "        spec:\n"),
		launched, strings.Replace(launched, "spec:\n", "spec:\n          nodeSelector: {kubernetes.io/hostname: node1}\n", 1))
	gone := "pi-worker-0"
	if s.pod(gone).Spec.NodeName == "node1" {
		gone = "pi-worker-1"
	}
	if s.pod(gone).Spec.NodeName != node {
		t.Fatalf("both workers are on node1")
	}
	t.Cleanup(func() { s.k("uncordon", node) })
	l := s.launcher()
	s.k("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--pod-selector=example.com/drained", "--timeout=120s")
	s.say("%s is drained", node)
	s.verdict(l, 249, gone, "is being taken away")
	s.until("the worker is elsewhere", func() bool {
		p := s.pod(gone)
		return p.Spec.NodeName == "node1" && p.container().Ready
	})
	s.works(s.next(l))
}

func TestSuspendAndResume(t *testing.T) {
	t.Parallel()
	s := namespace(t)
	steady(t, s)
	suspend := func(to string) {
		s.k("patch", "mpijob", "pi", "--type=merge", "-p", `{"spec":{"runPolicy":{"suspend":`+to+`}}}`)
		s.say("suspend: %s", to)
	}
	first := s.pod(launcher(s))
	suspend("true")
	s.last(first, 249, "is being taken away") // a worker, or the launcher itself
	s.until("no pod is left", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.pods) == 0 })
	suspend("false")
	s.works(launcher(s))
}

// A rank takes more memory than its pod may have: the kernel kills it, and the agent tells which limit it was.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	s := namespace(t)
	s.apply(changedTo(t, example(t, "mpijob.yaml"), `"/opt/pi"`, `"/opt/phases", "run", "/tmp"`,
		`{requests: {cpu: 100m, memory: 128Mi}, limits: {cpu: "2", memory: 2Gi}}`, "{limits: {memory: 128Mi, cpu: 500m}, requests: {cpu: 0, memory: 128Mi}}"))
	s.works(launcher(s))
	s.k("exec", "pi-worker-1", "--", "sh", "-c", `for p in /proc/[0-9]*; do if [ "$(cat $p/comm)" = phases ]; then kill -USR1 ${p#/proc/}; break; fi; done`)
	s.say("a rank of pi-worker-1 takes all memory that it gets")
	s.verdict(launcher(s), 137, "pi-worker-1", "memory")
}
