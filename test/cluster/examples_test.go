package cluster

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

// mpiJobs are our examples for MPI Operator, with the labels that their namespace has.
var mpiJobs = []struct {
	name, file string
	labels     []string
}{
	{"itself", "mpijob.yaml", nil},
	{"any image", "mpijob-any-image.yaml", nil},
	{"drop-in", "mpijob-drop-in.yaml", nil},
	{"mpich", "mpijob-mpich.yaml", nil},
	{"restricted", "mpijob-restricted.yaml", []string{"pod-security.kubernetes.io/enforce: restricted"}},
}

func TestMPIJobs(t *testing.T) {
	asked(t)
	t.Parallel()
	for _, test := range mpiJobs {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := namespace(t, test.labels...)
			s.apply(example(t, test.file))
			s.becomes("Succeeded", strings.TrimSpace(s.k("get", "mpijob", "-o", "name")))
			s.computed(launcher(s), 4)
		})
	}
}

// API server and webhooks take every manifest as it is, with no field that they do not know: those too whose GPUs or networks no node
// has. Of kinds that nobody installed here they say so.
func TestEveryManifest(t *testing.T) {
	t.Parallel()
	s := namespace(t)
	files, err := filepath.Glob("../../examples/*.yaml")
	more, err2 := filepath.Glob("../../examples/*/*.yaml")
	if files = append(files, more...); errors.Join(err, err2) != nil || len(files) < 20 {
		t.Fatal(err, err2, files)
	}
	absent := map[string]string{"volcano-job.yaml": `no matches for kind "Job" in version "batch.volcano.sh/`, "mpijob-two-networks.yaml": `no matches for kind "MultiNetworkPolicy"`,
		"monitoring/podmonitor.yaml": `no matches for kind "PodMonitor"`, "monitoring/prometheusrule.yaml": `no matches for kind "PrometheusRule"`}
	for _, path := range files {
		name, manifest := strings.TrimPrefix(path, "../../examples/"), file(t, path)
		if strings.HasPrefix(name, "monitoring/alerts") || strings.HasPrefix(name, "helm/") { // of Prometheus, and of Helm, which TestChart installs
			continue
		}
		want := absent[name]
		if strings.Contains(manifest, "\nkind: TrainJob\n") { // whose runtime is in the same file, and is not made either
			want = "must be created before the TrainJob is created"
		}
		switch _, err := s.kubectl(manifest, "apply", "--dry-run=server", "--validate=strict", "-f", "-"); {
		case want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "STDIN") != max(1, strings.Count(manifest, "\nkind: PodMonitor\n"))):
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

// launcher is the name of the namespace's one launcher.
func launcher(s *space) string {
	s.Helper()
	s.until("there is a launcher", func() bool { return s.launcher() != "" })
	return s.launcher()
}

// launcher is the newest one: those that failed stay.
func (s *space) launcher() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var newest pod
	for name, p := range s.pods {
		if strings.Contains(name, "launcher") && (newest.Metadata.Name == "" || p.Metadata.CreationTimestamp.After(newest.Metadata.CreationTimestamp)) {
			newest = p
		}
	}
	return newest.Metadata.Name
}

// computed fails the test unless a pod says what MPI Operator's pi says with so many ranks.
func (s *space) computed(pod string, ranks int) {
	s.Helper()
	out := s.logs(pod)
	if strings.Count(out, "Rank ") != ranks || !strings.Contains(out, "pi is approximately 3.14") {
		s.Errorf("want %d ranks and pi:\n%s", ranks, out)
	}
}

// Upstream's own, in images that have its program's path and mpiup as sshd and mpirun. No registry is there to pull from.
func TestUpstreamsExamples(t *testing.T) {
	asked(t)
	t.Parallel()
	for _, name := range []string{"pi.yaml", "pi-mpich.yaml"} {
		t.Run(name[:len(name)-5], func(t *testing.T) {
			t.Parallel()
			s := namespace(t)
			s.apply(strings.ReplaceAll(s.upstream(name), "imagePullPolicy: Always", "imagePullPolicy: IfNotPresent"))
			s.becomes("Succeeded", "mpijob/pi")
			s.computed(launcher(s), 2)
		})
	}
}

// upstream is one of MPI Operator's own examples. Its pods stay after their end for as long as a busy machine takes to read their
// logs. They ask for no CPU: the workers of jobs side by side would take all that the nodes have, and no launcher could follow.
func (s *space) upstream(name string) string {
	s.Helper()
	manifest := s.source("github.com/kubeflow/mpi-operator", "examples/v2beta1/pi/"+name)
	manifest = strings.ReplaceAll(manifest, "ttlSecondsAfterFinished: 60\n", "ttlSecondsAfterFinished: 3600\n")
	const resources = "            resources:\n"
	return changedTo(s, manifest, resources, resources+"              requests: {cpu: 0}\n")
}

// keyed makes the Secret that manifests without an operator's key ask for.
func (s *space) keyed() {
	s.Helper()
	key := s.run("../../bin/mpiup", "keygen")
	if _, err := s.kubectl(key, "create", "secret", "generic", "mpiup", "--from-file=key=/dev/stdin"); err != nil {
		s.Fatal(err)
	}
}

func TestIndexedJob(t *testing.T) {
	t.Parallel()
	s := namespace(t)
	s.keyed()
	s.apply(example(t, "indexed-job.yaml"))
	s.becomes("Complete", "job/pi")
	s.computed(s.known("pi-0"), 6)
}

func TestJobSet(t *testing.T) {
	t.Parallel()
	s := namespace(t)
	s.keyed()
	s.apply(example(t, "jobset.yaml"))
	s.becomes("Completed", "jobset/pi")
	s.computed(s.known("pi-node-0-0"), 6)
}

func TestStatefulSet(t *testing.T) {
	t.Parallel()
	s := namespace(t)
	s.keyed()
	s.apply(example(t, "statefulset.yaml"))
	s.becomes("Complete", "job/pi")
	s.computed(s.known("pi-"), 6)
}

// Two groups compute, each for itself, and their pods stay, as those that serve do: a leader that ends is started again with its
// whole group. Of the example's 48 ranks each group has three here, since they wait by computing, and the machine may have two cores.
func TestLeaderWorkerSet(t *testing.T) {
	t.Parallel()
	s := namespace(t)
	s.keyed()
	s.apply(changedTo(t, example(t, "leaderworkerset.yaml"), `"--ppn", "8", "-n", "24", "/opt/serve"`, `"--ppn", "1", "-n", "3", "sh", "-c", "/opt/serve && exec sleep 3600"`))
	for _, leader := range []string{"serve-0", "serve-1"} {
		s.until(leader+" has computed", func() bool {
			out, err := s.kubectl("", "logs", leader)
			return err == nil && strings.Count(out, "Rank ") == 3 && strings.Contains(out, "pi is approximately 3.14")
		})
	}
}

// A runtime is the whole cluster's, so it has a name of its own here: TestEveryManifest counts on there being none of the example's.
func TestTrainJob(t *testing.T) {
	t.Parallel()
	s := namespace(t)
	t.Cleanup(func() { s.k("delete", "clustertrainingruntime", "mpi-tried", "--ignore-not-found") })
	s.apply(changedTo(t, example(t, "trainer-runtime.yaml"), "name: mpi-mpiup", "name: mpi-tried"))
	s.becomes("Complete", "trainjob/pi")
	s.computed(launcher(s), 4)
}
