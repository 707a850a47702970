package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// phases waits in MPI_Init until each worker's /tmp has a file, so that there is somebody to look at.
const charted = `mpiJobs={"phases":{"workers":2,"command":["mpiup","run","-n","4","/opt/phases","init","/tmp"]}}`

// The Helm chart and the kustomize base, plain and hardened: the API server and the operators' webhooks take their objects under
// Pod Security "restricted", an MPIJob and a TrainJob of theirs succeed, and a hardened job's agents start ranks and nothing else.
func TestChart(t *testing.T) {
	asked(t)
	t.Parallel()
	if out, err := exec.Command("../release/chart.sh").CombinedOutput(); err != nil { // lints it, and builds helm where it is not there
		t.Fatalf("make chart: %v\n%s", err, out)
	}
	for _, test := range []struct {
		name     string
		hardened bool
		install  func(s *space, hardened bool)
	}{
		{"helm", false, (*space).helm},
		{"helm hardened", true, (*space).helm},
		{"kustomize", false, (*space).kustomize},
		{"kustomize hardened", true, (*space).kustomize},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := namespace(t, "pod-security.kubernetes.io/enforce: restricted")
			test.install(s, test.hardened)
			l := launcher(s)
			s.until("all ranks run", func() bool {
				_, err := s.kubectl("", "exec", "phases-worker-0", "--", "ls", "/tmp/at.0", "/tmp/at.1")
				if err == nil {
					_, err = s.kubectl("", "exec", "phases-worker-1", "--", "ls", "/tmp/at.2", "/tmp/at.3")
				}
				return err == nil
			})
			s.denied(test.hardened)
			for _, worker := range []string{"phases-worker-0", "phases-worker-1"} {
				s.k("exec", worker, "--", "touch", "/tmp/go")
			}
			s.becomes("Succeeded", "mpijob/phases")
			if e := s.over(l); e.Message != "" { // of what was denied to somebody who came in
				t.Errorf("the launcher ended: %+v", e)
			}
			if out := s.logs(l); strings.Count(out, " end\n") != 4 {
				t.Errorf("want the ends of four ranks:\n%s", out)
			}

			_, job, _ := strings.Cut(example(t, "trainer-runtime.yaml"), "\n---\n")
			s.apply(changedTo(t, job, "name: mpi-mpiup", "name: "+s.name))
			s.becomes("Complete", "trainjob/pi")
			s.computed("job/pi-launcher-0", 4)
		})
	}
}

// helm installs the chart as helm does, which make chart has built. The runtime is the whole cluster's: it has the namespace's name.
func (s *space) helm(hardened bool) {
	s.Helper()
	home := s.TempDir()
	helm := func(args ...string) {
		s.Helper()
		s.run("env", append([]string{"HELM_CACHE_HOME=" + home, "HELM_CONFIG_HOME=" + home, "HELM_DATA_HOME=" + home, "KUBECACHEDIR=" + home,
			"bash", "-c", `. ./versions.sh; . ./nodes.sh
			exec nsenter -t "$(cat "$run/node1.pid")" -n ../../.cache/release/helm --kubeconfig "$run/admin.kubeconfig" "$@"`,
			"helm", "-n", s.name}, args...)...)
	}
	s.Cleanup(func() { helm("uninstall", "mpiup") })
	set := "hardened=false"
	if hardened {
		set = "hardened=true"
	}
	helm("install", "mpiup", "../../examples/helm/mpiup", "--set", set, "--set", "image=registry.example.com/pi:1", "--set", "runtime="+s.name, "--set-json", charted)
}

// kustomize applies overlays as people write them: of the runtime with another name, and of the MPIJob with another name and command.
func (s *space) kustomize(hardened bool) {
	s.Helper()
	dir := s.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "base"), os.DirFS("../../examples/kustomize")); err != nil {
		s.Fatal(err)
	}
	overlay := "images: [{name: registry.example.com/mpiup-openmpi, newName: registry.example.com/pi, newTag: \"1\"}]\n"
	if hardened {
		overlay += "components: [../base/hardened]\n"
	}
	for kind, text := range map[string]string{
		"runtime": `resources: [../base/runtime]
patches:
- target: {kind: ClusterTrainingRuntime}
  patch: |
    - {op: replace, path: /metadata/name, value: ` + s.name + "}\n",
		"mpijob": `resources: [../base/mpijob]
patches:
- target: {kind: MPIJob}
  patch: |
    - {op: replace, path: /metadata/name, value: phases}
    - {op: replace, path: /spec/mpiReplicaSpecs/Launcher/template/spec/containers/0/command, value: [mpiup, run, -n, "4", /opt/phases, init, /tmp]}
`} {
		path := filepath.Join(dir, kind)
		if err := os.Mkdir(path, 0o755); err != nil {
			s.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path, "kustomization.yaml"), []byte(text+overlay), 0o600); err != nil {
			s.Fatal(err)
		}
		s.k("apply", "-k", path)
	}
	s.Cleanup(func() { s.k("delete", "clustertrainingruntime", s.name, "--ignore-not-found") })
}

// denied checks what agents start besides ranks: for mpiup exec and for the ssh name, by the key that the launcher has, and
// whether a container can be written to.
func (s *space) denied(hardened bool) {
	s.Helper()
	for _, try := range []struct{ pod, command, open, denied string }{
		{s.launcher(), "mpiup exec phases-worker-1 -- id -u", "1000\n", "policy refuses exec"},
		{s.launcher(), "ssh phases-worker-1 id -u", "1000\n", "policy refuses shell"},
		{"phases-worker-0", "mpiup exec phases-worker-1 -- id -u", "1000\n", "policy refuses exec"},
		{"phases-worker-1", "touch /home/mpiuser/x && echo written", "written\n", "Read-only file system"},
		{s.launcher(), "touch /home/mpiuser/x && echo written", "written\n", "Read-only file system"},
	} {
		out, err := s.kubectl("", "exec", try.pod, "--", "sh", "-c", try.command)
		switch {
		case !hardened:
			if err != nil || out != try.open {
				s.Errorf("%s in %s: %q, %v, want %q", try.command, try.pod, out, err, try.open)
			}
		case err == nil || !strings.Contains(err.Error(), try.denied):
			s.Errorf("%s in %s: %q, %v, want %q", try.command, try.pod, out, err, try.denied)
		default:
			s.say("%s in %s: %v", try.command, try.pod, err)
		}
	}
}
