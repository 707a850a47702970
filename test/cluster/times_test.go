package cluster

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/need"
)

// with is mpijob.yaml in an image that has both: mpiup, and OpenSSH with the library's own launcher.
func with(t *testing.T, library, launcher, worker string) string {
	t.Helper()
	return changedTo(t, example(t, "mpijob.yaml"),
		"registry.example.com/pi:1", "registry.example.com/both-"+library+":1",
		`["mpiup", "run", "--mpi-ports", "18000-18099", "-n", "4", "/opt/pi"]`, launcher, `["mpiup", "agent"]`, worker)
}

// sshd is what MPI Operator's workers run, which is ready when it runs.
const sshd = `["/usr/sbin/sshd", "-De", "-f", "/home/mpiuser/.sshd_config"]`

// From kubectl apply to the first barrier of four ranks on two workers, mpiup and sshd with Open MPI's mpirun in turn.
func TestTimeToTheFirstBarrier(t *testing.T) {
	rounds, err := strconv.Atoi(need.Asked(t, "MPIUP_CLUSTER_ROUNDS", "5"))
	if err != nil {
		t.Fatal(err)
	}
	took := map[string][]int{}
	for round := range rounds {
		for _, way := range []struct{ name, launcher, worker string }{
			{"mpiup", `["mpiup", "run", "-n", "4", "-x", "T0", "/opt/hello"]`, `["mpiup", "agent"]`},
			{"sshd", `["mpirun", "-n", "4", "-x", "T0", "/opt/hello"]`, sshd},
		} {
			t.Run(fmt.Sprint(way.name, round), func(t *testing.T) {
				s := namespace(t)
				job := with(t, "openmpi", way.launcher, way.worker)
				if way.name == "sshd" {
					job = regexp.MustCompile(`(?m)^ +readinessProbe:\n( {14}.*\n){2,}`).ReplaceAllString(job, "")
				}
				s.apply(changedTo(t, job, "env:\n", fmt.Sprintf("env:\n            - {name: T0, value: \"%d\"}\n", time.Now().UnixNano())))
				s.becomes("Succeeded", "mpijob/pi")
				took[way.name] = append(took[way.name], number(t, s.logs(launcher(s)), `(\d+) ms from the command to the first barrier`))
			})
		}
	}
	for name, all := range took {
		slices.Sort(all)
		t.Logf("%s: median %d ms of %v", name, all[len(all)/2], all)
	}
}

func number(t testing.TB, text, pattern string) int {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no %s:\n%s", pattern, text)
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// MPI's own speed under mpiup and under the library's own launcher over ssh, in turn and in the same pods, by OSU's micro-benchmarks
// (images.sh, OSU): within one pod and between two.
func TestSpeed(t *testing.T) {
	rounds, err := strconv.Atoi(need.Asked(t, "MPIUP_CLUSTER_ROUNDS", "5"))
	if err != nil {
		t.Fatal(err)
	}
	for _, library := range []struct{ name, own string }{
		{"openmpi", "mpirun.openmpi --bind-to %s --host %s"},
		{"mpich", "mpiexec.hydra -launcher ssh -bind-to %s -hosts %s"},
	} {
		t.Run(library.name, func(t *testing.T) {
			s := namespace(t)
			s.apply(with(t, library.name, `["sleep", "3600"]`, `["sh", "-c", "/usr/sbin/sshd -f /home/mpiuser/.sshd_config; exec mpiup agent"]`))
			l := launcher(s)
			s.until("all are ready", func() bool {
				return s.pod("pi-worker-0").container().Ready && s.pod("pi-worker-1").container().Ready && s.pod(l).container().Ready
			})
			// Both launchers go by addresses: names that were asked for too early are denied to ssh for 30 s.
			one, two := s.address("pi-worker-0"), s.address("pi-worker-1")
			// Both nodes are this one machine: two pods that bind rank 0 to their first core would share it.
			for _, place := range []struct{ name, bind, hosts string }{{"one pod", "core", one + ":2"}, {"two pods", "none", one + ":1," + two + ":1"}} {
				for _, b := range []struct{ program, iterations, size string }{{"osu_latency", "20000", "8"}, {"osu_bw", "50", "1048576"}} {
					t.Run(place.name+"/"+b.program, func(t *testing.T) {
						got := map[string][]float64{}
						for range rounds {
							for way, command := range map[string]string{
								"mpiup": fmt.Sprintf("mpiup run --bind-to %s --host %s", place.bind, place.hosts),
								"own":   fmt.Sprintf(library.own, place.bind, place.hosts),
							} {
								got[way] = append(got[way], s.osu(l, command+" -n 2 /opt/"+b.program+" -i "+b.iterations, b.size))
							}
						}
						own, ours := median(got["own"]), median(got["mpiup"])
						ratio := ours / own
						if b.program == "osu_latency" {
							ratio = own / ours
						}
						t.Logf("%s, %s, %s of %s bytes: mpiup %v, its own launcher %v, medians' ratio %.3f", library.name, place.name, b.program, b.size, got["mpiup"], got["own"], ratio)
					})
				}
			}
		})
	}
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

// address is a pod's.
func (s *space) address(pod string) string {
	s.Helper()
	return s.k("get", "pod", pod, "-o", "jsonpath={.status.podIP}")
}

// osu runs one of OSU's benchmarks in a pod and returns what it found for messages of that size.
func (s *space) osu(pod, command, size string) float64 {
	s.Helper()
	out := s.k("exec", pod, "--", "sh", "-c", command)
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == size {
			v, err := strconv.ParseFloat(f[1], 64)
			if err == nil {
				return v
			}
		}
	}
	s.Fatalf("%s: no line of %s bytes:\n%s", command, size, out)
	return 0
}
