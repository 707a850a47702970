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

// works waits until a launcher's container, as it is now, has lines of all four ranks.
func (s *space) works(launcher string) {
	s.Helper()
	s.until("all ranks of "+launcher+" work", func() bool {
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
	described := s.k("describe", "pod", launcher)
	log, _ := s.kubectl("", "logs", launcher, "--tail=20", "--previous") // there is none before the container starts again
	log += s.logs(launcher, "--tail=20")
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

func TestAgentKilled(t *testing.T) {
	s := namespace(t)
	steady(t, s)
	// The agent's container has a PID namespace of its own, in which nobody may kill PID 1: the node does it.
	s.run("bash", "-c", `. ./versions.sh; . ./nodes.sh
		for n in 1 2; do for p in $(in_node $n pgrep -fx "mpiup agent"); do
			! in_node $n grep -qs pi-worker-1 /proc/$p/root/etc/hostname || in_node $n kill -9 $p
		done; done`)
	s.say("the agent of pi-worker-1 is killed")
	s.verdict(launcher(s), 248, "pi-worker-1")
	s.works(launcher(s))
}

func TestWorkerDeleted(t *testing.T) {
	s := namespace(t)
	steady(t, s)
	s.k("delete", "pod", "pi-worker-1", "--wait=false")
	s.say("pi-worker-1 is deleted")
	s.verdict(launcher(s), 249, "pi-worker-1")
	s.works(launcher(s))
}

func TestLauncherDeleted(t *testing.T) {
	s := namespace(t)
	steady(t, s)
	first := s.pod(launcher(s))
	s.k("delete", "pod", first.Metadata.Name, "--wait=false")
	s.say("the launcher is deleted")
	s.until("there is another launcher", func() bool { return s.pod("pi-launcher", first.Metadata.UID).Metadata.Name != "" })
	s.works(s.pod("pi-launcher", first.Metadata.UID).Metadata.Name)
}

// The node of the second worker is drained: the pod goes as Kubernetes takes pods away, and its successor comes up on the
// other node.
func TestNodeDrained(t *testing.T) {
	s := namespace(t)
	// Two workers on two nodes, and the launcher on the first.
	steady(t, s)
	node := s.pod("pi-worker-1").Spec.NodeName
	if s.pod(launcher(s)).Spec.NodeName == node {
		s.say("the launcher is on the same node and goes too")
	}
	t.Cleanup(func() { s.k("uncordon", node) })
	s.k("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--pod-selector=training.kubeflow.org/job-name=pi", "--timeout=120s")
	s.say("%s is drained", node)
	s.until("the worker is elsewhere", func() bool {
		p := s.pod("pi-worker-1")
		return p.Spec.NodeName != "" && p.Spec.NodeName != node && p.container().Ready
	})
	s.until("a launcher runs", func() bool { return s.pod("pi-launcher").container().State.Running != nil })
	s.works(s.launcher())
}

func TestSuspendAndResume(t *testing.T) {
	s := namespace(t)
	steady(t, s)
	suspend := func(to string) {
		s.k("patch", "mpijob", "pi", "--type=merge", "-p", `{"spec":{"runPolicy":{"suspend":`+to+`}}}`)
		s.say("suspend: %s", to)
	}
	suspend("true")
	s.until("no pod is left", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.pods) == 0 })
	suspend("false")
	s.works(launcher(s))
}

// A rank takes more memory than its pod may have: the kernel kills it, and the agent tells which limit it was.
func TestOutOfMemory(t *testing.T) {
	s := namespace(t)
	s.apply(changedTo(t, example(t, "mpijob.yaml"), `"/opt/pi"`, `"/opt/phases", "run", "/tmp"`,
		"            command: [\"mpiup\", \"agent\"]\n", "            command: [\"mpiup\", \"agent\"]\n            resources: {limits: {memory: 128Mi, cpu: 500m}, requests: {cpu: 0, memory: 128Mi}}\n"))
	s.works(launcher(s))
	s.k("exec", "pi-worker-1", "--", "sh", "-c", `for p in /proc/[0-9]*; do if [ "$(cat $p/comm)" = phases ]; then kill -USR1 ${p#/proc/}; break; fi; done`)
	s.say("a rank of pi-worker-1 takes all memory that it gets")
	s.verdict(launcher(s), 137, "pi-worker-1", "memory")
}
