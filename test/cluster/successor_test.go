package cluster

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// over waits until a pod's container is over, and returns how.
func (s *space) over(pod string) *ended {
	s.Helper()
	var e *ended
	s.until(pod+" is over", func() bool { e = s.pod(pod).container().State.Terminated; return e != nil })
	return e
}

// killed kills all processes of a pod whose command line matches, from the node: in a container's own namespace of PIDs nobody
// may kill its PID 1.
func (s *space) killed(pod, command string) {
	s.Helper()
	p := s.pod(pod)
	s.run("bash", "-c", `. ./versions.sh; . ./nodes.sh; found=
		for p in $(in_node "$1" pgrep -fx "$3"); do
			! in_node "$1" grep -qs "pod$2" "/proc/$p/cgroup" || { in_node "$1" kill -9 "$p"; found=1; }
		done; [ "$found" ]`, "kill", strings.TrimPrefix(p.Spec.NodeName, "node"), p.Metadata.UID, command)
	s.say("%q of %s is killed", command, pod)
}

// A worker's pod is lost with its agent and made anew, as another pod of the same name: the same launcher starts the ranks again there.
func TestMaxRestartsInANewPod(t *testing.T) {
	t.Parallel()
	s := namespace(t)
	steady(t, s, `"mpiup", "run",`, `"mpiup", "run", "--max-restarts", "1", "--stdin", "none",`,
		"restartPolicy: OnFailure ", "restartPolicy: Never  ")
	l, first := s.launcher(), s.pod("pi-worker-1")
	s.killed("pi-worker-1", "mpiup agent")
	s.over("pi-worker-1")
	s.k("delete", "pod", "pi-worker-1", "--wait=false")
	s.until("there is another pi-worker-1", func() bool { return s.pod("pi-worker-1", first.Metadata.UID).container().Ready })
	s.says(l, "the ranks start again (restart 1 of 1)")
	s.again(l, 1)
	if p := s.pod(l); p.container().RestartCount != 0 {
		t.Errorf("the launcher has ended: %s", p.line())
	}
}

// again waits until all four ranks count from 0 for the n-th time after the first.
func (s *space) again(launcher string, n int) {
	s.Helper()
	s.until("all ranks have started again", func() bool {
		out, err := s.kubectl("", "logs", launcher)
		if err != nil {
			return false
		}
		for _, rank := range []string{"\n0 0\n", "\n1 0\n", "\n2 0\n", "\n3 0\n"} {
			if strings.Count("\n"+out, rank) != n+1 {
				return false
			}
		}
		return true
	})
}

// A worker's pod that is told to go ends the run, whatever --max-restarts says: the launcher's own Job starts it again.
func TestMaxRestartsAndAPodThatIsTakenAway(t *testing.T) {
	t.Parallel()
	s := namespace(t)
	steady(t, s, `"mpiup", "run",`, `"mpiup", "run", "--max-restarts", "1", "--stdin", "none",`)
	l := s.launcher()
	s.k("delete", "pod", "pi-worker-1", "--wait=false")
	s.verdict(l, 249, "pi-worker-1")
	s.works(s.next(l))
}

// held is mpijob.yaml with ranks that work until they are released, see wentOn, and outlive their launcher.
func held(t *testing.T, s *space, oldnew ...string) {
	t.Helper()
	steady(t, s, append([]string{`"mpiup", "run",`, `"mpiup", "run", "--stdin", "none", "--on-launcher-loss", "hold=2m",`, `"600"`, `"600", "/tmp/go"`}, oldnew...)...)
}

// counted is the highest number that rank 0 has written in a launcher's log.
func (s *space) counted(launcher string, flags ...string) int {
	s.Helper()
	all := regexp.MustCompile(`(?m)^0 (\d+)$`).FindAllStringSubmatch(s.logs(launcher, flags...), -1)
	if len(all) == 0 {
		s.Fatalf("rank 0 has written nothing in %s", launcher)
	}
	n, err := strconv.Atoi(all[len(all)-1][1])
	if err != nil {
		s.Fatal(err)
	}
	return n
}

// wentOn checks that the ranks which a successor ends with are those that its predecessor had started.
func (s *space) wentOn(successor string, before int) {
	s.Helper()
	s.says(successor, "taking over from launcher pi-launcher, which is lost: 4 ranks on 2 hosts")
	s.k("exec", "pi-worker-0", "--", "touch", "/tmp/go") // where rank 0 is
	s.becomes("Succeeded", "mpijob/pi")
	out := s.logs(successor)
	s.say("%s", strings.Join(regexp.MustCompile(`(?m)^mpiup: .*$`).FindAllString(out, -1), "\n"))
	if strings.Contains("\n"+out, "\n0 0\n") {
		s.Errorf("%s has started rank 0 anew", successor)
	}
	if end := number(s, out, `(?m)^0 end (\d+)$`); end < before {
		s.Errorf("rank 0 ended at %d, and had counted to %d before", end, before)
	}
}

// The launcher's container is killed, and the kubelet starts it again in its pod.
func TestHeldForAContainer(t *testing.T) {
	t.Parallel()
	s := namespace(t)
	held(t, s, "restartPolicy: Never  ", "restartPolicy: OnFailure  ")
	l := s.launcher()
	s.killed(l, "mpiup run .*")
	s.until("the container has started again", func() bool { c := s.pod(l).container(); return c.RestartCount == 1 && c.State.Running != nil })
	s.wentOn(l, s.counted(l, "--previous"))
}

// The launcher's container is killed, and its Job makes another pod.
func TestHeldForAPod(t *testing.T) {
	t.Parallel()
	s := namespace(t)
	held(t, s)
	first := s.pod(s.launcher())
	s.killed(first.Metadata.Name, "mpiup run .*")
	before := s.counted(first.Metadata.Name)
	s.until("there is another launcher", func() bool { return s.pod("pi-launcher", first.Metadata.UID).container().State.Running != nil })
	s.wentOn(s.pod("pi-launcher", first.Metadata.UID).Metadata.Name, before)
}

// A launcher's pod that is deleted gets SIGTERM, which ends the ranks as ever: its successor starts them anew.
func TestHeldForNobody(t *testing.T) {
	t.Parallel()
	s := namespace(t)
	held(t, s)
	first := s.pod(s.launcher())
	s.k("delete", "pod", first.Metadata.Name, "--wait=false")
	s.until("there is another launcher", func() bool { return s.pod("pi-launcher", first.Metadata.UID).container().State.Running != nil })
	successor := s.pod("pi-launcher", first.Metadata.UID).Metadata.Name
	s.works(successor)
	if out := s.logs(successor); !strings.Contains("\n"+out, "\n0 0\n") || strings.Contains(out, "taking over") {
		t.Errorf("want ranks that began anew:\n%.2000s", out)
	}
}
