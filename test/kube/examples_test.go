package kube_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/test/netns"
)

// object is a Kubernetes object, as far as it matters here.
type object struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     yaml.Node
}

type podSpec struct {
	Subdomain       string
	HostNetwork     bool           `yaml:"hostNetwork"`
	Grace           int            `yaml:"terminationGracePeriodSeconds"`
	SecurityContext map[string]any `yaml:"securityContext"`
	InitContainers  []container    `yaml:"initContainers"`
	Containers      []container
	Volumes         []struct {
		Name   string
		Secret struct {
			SecretName  string `yaml:"secretName"`
			DefaultMode int    `yaml:"defaultMode"`
		}
	}
}

type container struct {
	Name, Image   string
	Command, Args []string
	Ports         []struct {
		Name string
		Port int `yaml:"containerPort"`
	}
	ReadinessProbe struct {
		HTTP struct{ Path, Port string } `yaml:"httpGet"`

		Period   int `yaml:"periodSeconds"`
		Timeout  int `yaml:"timeoutSeconds"`
		Failures int `yaml:"failureThreshold"`
	} `yaml:"readinessProbe"`
	SecurityContext map[string]any `yaml:"securityContext"`
	Env             []struct{ Name, Value string }
	VolumeMounts    []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
}

func (c container) is(command string) bool {
	return len(c.Command) > 1 && filepath.Base(c.Command[0]) == "mpiup" && c.Command[1] == command
}

func (c container) agent() bool { return c.is("agent") }

// hardened says that an agent, or a pod's part by mpiup up, starts ranks and nothing else.
func (c container) hardened() bool {
	words := c.Command[2:]
	return len(words) >= len(denied) && slices.Equal(words[:len(denied)], denied) || slices.Equal(words[max(0, len(words)-len(denied)):], denied)
}

func (c container) mounts(path string) (volume string) {
	for _, m := range c.VolumeMounts {
		if m.MountPath == path {
			volume = m.Name
		}
	}
	return volume
}

// example reads the objects of a file.
func example(t *testing.T, name string) (objects []object) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../examples", name))
	must(t, err)
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var o object
		err := d.Decode(&o)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		objects = append(objects, o)
	}
}

// pods are the pod specs anywhere below a node: the mappings that have containers.
func pods(t *testing.T, n *yaml.Node) (out []podSpec) {
	t.Helper()
	if n.Kind == yaml.AliasNode {
		return nil
	}
	if n.Kind == yaml.MappingNode {
		for i := 0; i < len(n.Content); i += 2 {
			if n.Content[i].Value == "containers" {
				var p podSpec
				must(t, n.Decode(&p))
				return []podSpec{p}
			}
		}
	}
	for _, c := range n.Content {
		out = append(out, pods(t, c)...)
	}
	return out
}

func exampleFiles(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, pattern := range []string{"*.yaml", "*/*.yaml"} {
		files, err := filepath.Glob("../../examples/" + pattern)
		must(t, err)
		if len(files) < 6 {
			t.Fatalf("examples that match %s: %v", pattern, files)
		}
		for _, f := range files {
			if name := strings.TrimPrefix(f, "../../examples/"); !strings.HasPrefix(name, "monitoring/alerts") { // Prometheus' own are no objects
				names = append(names, name)
			}
		}
	}
	return names
}

// Every example says what mpiup relies on, and none asks for what mpiup does not need.
func TestExamples(t *testing.T) {
	for _, name := range exampleFiles(t) {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("../../examples", name))
			must(t, err)
			if !strings.HasPrefix(string(text), "# ") || !strings.Contains(string(text), "# mpiup relies on:") {
				t.Error("it does not begin with a comment on what mpiup relies on")
			}
			for _, o := range example(t, name) {
				if o.Kind == "" || o.Metadata.Name == "" {
					t.Errorf("an object without kind or name: %+v", o)
				}
				for _, p := range pods(t, &o.Spec) {
					checkPod(t, name, p)
				}
			}
		})
	}
}

// denied is in the command of an agent that starts ranks and nothing else.
var denied = []string{"--deny", "exec,shell"}

// startsMore are the examples whose agents start more than that, and why. mpijob-drop-in.yaml, whose scripts use ssh, has none
// by that name.
var startsMore = map[string]string{
	"mpijob.yaml":           "the first that one tries, and looks into with mpiup exec",
	"mpijob-any-image.yaml": "the same",
	"mpijob-mpich.yaml":     "the same",
	"mpijob-intel.yaml":     "the same",
	"trainer-runtime.yaml":  "users' scripts may call mpirun and ssh",
	"statefulset.yaml":      "for working by hand",
}

func checkPod(t *testing.T, file string, p podSpec) {
	t.Helper()
	if p.HostNetwork {
		t.Error("hostNetwork is not needed")
	}
	first := p.Containers[0]
	if file != "mpijob-drop-in.yaml" && (p.Grace == 0 || !slices.Contains(first.Env, struct{ Name, Value string }{"MPIUP_POD_GRACE", strconv.Itoa(p.Grace)})) {
		t.Errorf("%s: terminationGracePeriodSeconds is %d, and MPIUP_POD_GRACE does not say so: %v", first.Name, p.Grace, first.Env)
	}
	if file != "mpijob-drop-in.yaml" && !slices.ContainsFunc(first.Env, func(e struct{ Name, Value string }) bool { return e.Name == "NODE_NAME" }) {
		t.Errorf("%s: verdicts cannot name the node without NODE_NAME: %v", first.Name, first.Env)
	}
	for _, c := range slices.Concat(p.InitContainers, p.Containers) {
		if c.SecurityContext["privileged"] != nil || strings.Contains(strings.Join(c.Command, " "), "sshd") && file != "mpijob-drop-in.yaml" {
			t.Errorf("%s asks for more than mpiup needs", c.Name)
		}
	}
	if first.agent() || first.is("up") {
		probe := first.ReadinessProbe
		if probe.HTTP.Path != "/readyz" || probe.HTTP.Port != "mpiup-http" || len(first.Ports) == 0 || first.Ports[0].Name != "mpiup-http" || first.Ports[0].Port != 7612 {
			t.Errorf("%s: readiness is asked at %+v, of the ports %+v", first.Name, probe.HTTP, first.Ports)
		}
		// On a real cluster some workers were Ready 10 s late with the default, and names appear with readiness.
		if p := probe.Period; p < 1 || p > 2 {
			t.Errorf("%s: readiness is looked at every %d s (0: the default of 10), want every second or two", first.Name, p)
		}
		// A node that is loaded may answer late for a while; a pod that is not ready any more leaves DNS.
		if probe.Timeout < 5 || probe.Period*probe.Failures < 30 {
			t.Errorf("%s: it is not ready any more after %d answers within %d s that fail, of a look each %d s: want 30 s and more", first.Name, probe.Failures, probe.Timeout, probe.Period)
		}
		if len(first.Args) > 0 {
			t.Errorf("%s: an agent needs no arguments: %q", first.Name, first.Args)
		}
	}
	if slices.Contains([]string{"leaderworkerset.yaml", "indexed-job.yaml", "jobset.yaml", "statefulset.yaml", "trainer-up.yaml"}, file) { // nobody else brings a secret
		volume := first.mounts("/etc/mpiup")
		if len(p.Volumes) == 0 || p.Volumes[0].Name != volume || p.Volumes[0].Secret.SecretName == "" || p.Volumes[0].Secret.DefaultMode != 0o444 {
			t.Errorf("%s has no readable Secret at /etc/mpiup: %+v", first.Name, p.Volumes)
		}
	}
	if first.agent() || first.is("up") {
		if why := startsMore[file]; (why == "") != first.hardened() {
			t.Errorf("%s: the agent runs %q; only %v may start more than ranks", first.Name, first.Command, startsMore)
		}
	}
	if !first.agent() && !first.is("run") && !first.is("up") && !strings.HasPrefix(filepath.Base(file), "trainer") && file != "mpijob-drop-in.yaml" {
		t.Errorf("%s: the first container runs %q, not mpiup", first.Name, first.Command)
	}
}

type mpiJobSpec struct {
	SlotsPerWorker   int    `yaml:"slotsPerWorker"`
	SSHAuthMountPath string `yaml:"sshAuthMountPath"`
	Replicas         map[string]struct {
		Replicas      int
		RestartPolicy string `yaml:"restartPolicy"`
		Template      struct{ Spec podSpec }
	} `yaml:"mpiReplicaSpecs"`
}

func TestMPIJobExamples(t *testing.T) {
	for _, name := range exampleFiles(t) {
		if !strings.HasPrefix(filepath.Base(name), "mpijob") || name == "mpijob-drop-in.yaml" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			var job mpiJobSpec
			o := example(t, name)[0]
			must(t, o.Spec.Decode(&job))
			worker, launcher := job.Replicas["Worker"], job.Replicas["Launcher"]
			if o.Kind != "MPIJob" || worker.RestartPolicy != "OnFailure" || job.SSHAuthMountPath == implicitAuth {
				t.Errorf("kind %s, workers restart %s, key at %s", o.Kind, worker.RestartPolicy, job.SSHAuthMountPath)
			}
			w, l := worker.Template.Spec.Containers, launcher.Template.Spec.Containers
			if len(w) != 1 || len(l) != 1 || !w[0].agent() || !l[0].is("run") {
				t.Fatalf("worker %+v, launcher %+v", w, l)
			}
			for _, p := range []podSpec{worker.Template.Spec, launcher.Template.Spec} {
				switch name {
				case "mpijob-any-image.yaml":
					dir := filepath.Dir(p.Containers[0].Command[0])
					if len(p.InitContainers) != 1 || !slices.Equal(p.InitContainers[0].Command, []string{"/mpiup", "install", dir}) ||
						p.InitContainers[0].mounts(dir) == "" || p.Containers[0].mounts(dir) != p.InitContainers[0].mounts(dir) {
						t.Errorf("the binary does not reach %s: %+v", dir, p)
					}
				case "mpijob-restricted.yaml":
					c := p.Containers[0].SecurityContext
					if p.SecurityContext["runAsNonRoot"] != true || p.SecurityContext["seccompProfile"] == nil ||
						c["allowPrivilegeEscalation"] != false || c["readOnlyRootFilesystem"] != true || c["capabilities"] == nil {
						t.Errorf("not restricted: %v, %v", p.SecurityContext, c)
					}
				}
			}
		})
	}
}

func TestTrainerExamples(t *testing.T) {
	for _, name := range exampleFiles(t) {
		if !strings.HasPrefix(filepath.Base(name), "trainer") || name == "trainer-up.yaml" { // whose pods are all alike, and which contract runs
			continue
		}
		t.Run(name, func(t *testing.T) {
			docs := example(t, name)
			all := pods(t, &docs[0].Spec)
			if len(all) != 2 || !all[0].Containers[0].agent() || len(all[1].Containers[0].Command) > 0 {
				t.Fatalf("want a node that runs the agent and a launcher without command: %+v", all)
			}
			for _, p := range all {
				if p.Containers[0].Name != "node" {
					t.Errorf("container %s", p.Containers[0].Name)
				}
			}
			var job struct {
				RuntimeRef struct{ Kind, Name string } `yaml:"runtimeRef"`
				Trainer    struct{ Command []string }
			}
			must(t, docs[1].Spec.Decode(&job))
			if c := (container{Command: job.Trainer.Command}); !c.is("run") {
				t.Errorf("the TrainJob runs %q", job.Trainer.Command)
			}
			if docs[0].Kind != job.RuntimeRef.Kind || docs[0].Metadata.Name != job.RuntimeRef.Name {
				t.Errorf("the TrainJob wants %+v and there is %s %s", job.RuntimeRef, docs[0].Kind, docs[0].Metadata.Name)
			}
		})
	}
}

// Each example that trains has its image and both objects, which run the same command in the same image as a user who is not root.
func TestTrainingExamplesAreWhole(t *testing.T) {
	scripts, err := filepath.Glob("../../examples/*/train.py")
	must(t, err)
	for _, script := range scripts {
		name := filepath.Base(filepath.Dir(script))
		if name == "torch-checkpoint" { // a program alone, for the image and the objects of torch-ddp
			continue
		}
		t.Run(name, func(t *testing.T) {
			dockerfile, err := os.ReadFile(filepath.Join(filepath.Dir(script), "Dockerfile"))
			must(t, err)
			lines := strings.Split(strings.TrimSpace(string(dockerfile)), "\n")
			if !slices.Contains(lines, "COPY train.py /opt/train.py") || lines[len(lines)-1] != "USER 1000:0" || strings.Contains(string(dockerfile), "ssh ") {
				t.Errorf("the image lacks train.py or its user, or has ssh:\n%s", dockerfile)
			}
			mpi, run := example(t, name+"/mpijob.yaml"), example(t, name+"/trainer.yaml")
			var job mpiJobSpec
			must(t, mpi[0].Spec.Decode(&job))
			var trainJob struct{ Trainer struct{ Command []string } }
			must(t, run[1].Spec.Decode(&trainJob))
			command := job.Replicas["Launcher"].Template.Spec.Containers[0].Command
			if !slices.Equal(command, trainJob.Trainer.Command) || command[len(command)-1] != "/opt/train.py" {
				t.Errorf("the MPIJob runs %q, the TrainJob %q", command, trainJob.Trainer.Command)
			}
			for _, p := range append(pods(t, &mpi[0].Spec), pods(t, &run[0].Spec)...) {
				if image := p.Containers[0].Image; image != "registry.example.com/"+name+":1" || p.SecurityContext["runAsNonRoot"] != true {
					t.Errorf("image %s as %v", image, p.SecurityContext)
				}
			}
		})
	}
}

func TestVolcanoExample(t *testing.T) {
	var job struct{ Plugins map[string][]string }
	o := example(t, "volcano-job.yaml")[0]
	must(t, o.Spec.Decode(&job))
	if job.Plugins["ssh"] == nil || job.Plugins["svc"] == nil {
		t.Errorf("plugins %v, want ssh and svc", job.Plugins)
	}
}

// mpiPorts are those of a job's --mpi-ports.
func mpiPorts(t *testing.T, file string) job.Ports {
	t.Helper()
	var spec mpiJobSpec
	must(t, example(t, file)[0].Spec.Decode(&spec))
	argv := spec.Replicas["Launcher"].Template.Spec.Containers[0].Command
	at := slices.Index(argv, "--mpi-ports")
	if at < 0 {
		t.Fatalf("%s runs %q, without --mpi-ports", file, argv)
	}
	mpi, err := job.ParsePorts(argv[at+1])
	must(t, err)
	return mpi
}

// The policies' ports are mpiup's own and those that the jobs' run lines name: on one network both, on two each
// has the ports of what goes over it.
func TestNetworkPolicyExamples(t *testing.T) {
	type peer struct {
		PodSelector struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		} `yaml:"podSelector"`
	}
	type port struct {
		Protocol string
		Port     int
		EndPort  int `yaml:"endPort"`
	}
	type rule struct {
		From, To []peer
		Ports    []port
	}
	of := func(file string) port {
		mpi := mpiPorts(t, file)
		return port{Protocol: "TCP", Port: int(mpi.Low), EndPort: int(mpi.High)}
	}
	own := port{Protocol: "TCP", Port: 16748}
	for _, tt := range []struct {
		file   string
		object int
		job    string
		egress int // rules: with DNS or without
		ports  []port
	}{
		{"network-policy.yaml", 0, "pi", 2, []port{own, of("mpijob.yaml")}},
		{"mpijob-two-networks.yaml", 1, "pi-two-networks", 2, []port{own}},
		{"mpijob-two-networks.yaml", 2, "pi-two-networks", 1, []port{of("mpijob-two-networks.yaml")}},
	} {
		o := example(t, tt.file)[tt.object]
		var p struct {
			peer            `yaml:",inline"`
			Ingress, Egress []rule
		}
		must(t, o.Spec.Decode(&p))
		if len(p.Ingress) != 1 || len(p.Egress) != tt.egress {
			t.Fatalf("%s, %s: %d rules for what comes in and %d for what goes out: %+v", tt.file, o.Kind, len(p.Ingress), len(p.Egress), p)
		}
		const label = "training.kubeflow.org/job-name"
		if job := p.PodSelector.MatchLabels[label]; job != tt.job {
			t.Errorf("%s, %s: of job %q, not %q", tt.file, o.Kind, job, tt.job)
		}
		for way, r := range map[string]rule{"in": p.Ingress[0], "out": p.Egress[0]} {
			peers := append(r.From, r.To...)
			if len(peers) != 1 || peers[0].PodSelector.MatchLabels[label] != tt.job || !slices.Equal(r.Ports, tt.ports) {
				t.Errorf("%s, %s, %s: pods of one job cannot reach each other at %+v: %+v", tt.file, o.Kind, way, tt.ports, r)
			}
		}
	}
}

// What a Dockerfile of an example takes from our image is in it.
func TestDockerfilesTakeWhatIsThere(t *testing.T) {
	files, err := filepath.Glob("../../examples/*/Dockerfile")
	must(t, err)
	if len(files) == 0 {
		t.Fatal("no Dockerfile")
	}
	text, err := os.ReadFile("../../Containerfile")
	must(t, err)
	_, image, ok := strings.Cut(string(text), "FROM scratch AS mpiup\n")
	if !ok {
		t.Fatal("the Containerfile has no target mpiup")
	}
	there := map[string]bool{} // of "COPY --from=build A B /"
	for line := range strings.Lines(image) {
		if from, ok := strings.CutPrefix(line, "COPY --from=build "); ok {
			words := strings.Fields(from)
			for _, path := range words[:len(words)-1] {
				there[filepath.Join(words[len(words)-1], filepath.Base(path))] = true
			}
		}
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		must(t, err)
		taken := 0
		for line := range strings.Lines(string(text)) {
			from, ok := strings.CutPrefix(line, "COPY --from=registry.example.com/mpiup:1 ")
			if !ok {
				continue
			}
			words := strings.Fields(from)
			for _, path := range words[:len(words)-1] {
				taken++
				if !there[path] {
					t.Errorf("%s takes %s, which the image does not have:\n%s", f, path, image)
				}
			}
		}
		if taken == 0 {
			t.Errorf("%s takes nothing of mpiup's", f)
		}
	}
}

// Whatever the Dockerfiles of examples install by pip has the version with which test/frameworks.sh proved it.
func TestDockerfilesPinWhatWasTried(t *testing.T) {
	proven, err := os.ReadFile("../frameworks.sh")
	must(t, err)
	files, err := filepath.Glob("../../examples/*/Dockerfile")
	must(t, err)
	pins := 0
	for _, f := range files {
		text, err := os.ReadFile(f)
		must(t, err)
		for _, word := range strings.Fields(string(text)) {
			name, version, pinned := strings.Cut(word, "==")
			if !pinned {
				continue
			}
			pins++
			if !slices.Contains(strings.FieldsFunc(string(proven), func(r rune) bool { return strings.ContainsRune(" \n\"", r) }), word) &&
				!strings.Contains(string(proven), "\n"+name+"="+version+"\n") {
				t.Errorf("%s installs %s, which test/frameworks.sh does not", f, word)
			}
		}
		if strings.Contains(string(text), "pip install") && pins == 0 {
			t.Errorf("%s installs what it does not pin", f)
		}
	}
	if pins < 10 {
		t.Errorf("only %d pins", pins)
	}
}

// exampleProgram stands for the programs of the examples.
var exampleProgram = sync.OnceValues(func() (string, error) {
	path := filepath.Join(built, "program")
	return path, os.WriteFile(path, []byte("#!/bin/sh\n"+whereAmI[2]+"\n"), 0o755)
})

// The commands of mpijob.yaml, as they stand there, in the operator's pods.
func TestMPIJobExampleRuns(t *testing.T) {
	t.Parallel()
	program, err := exampleProgram()
	must(t, err)
	var spec mpiJobSpec
	must(t, example(t, "mpijob.yaml")[0].Spec.Decode(&spec))
	j := newMPIJob(t, netns.IPv4, "OpenMPI", spec.Replicas["Worker"].Replicas)
	j.slots, j.auth = spec.SlotsPerWorker, spec.SSHAuthMountPath
	j.mount()
	here := func(c container) []string {
		argv := slices.Clone(c.Command)
		argv[0] = j.bin
		return argv
	}
	c := spec.Replicas["Worker"].Template.Spec.Containers[0]
	for _, w := range j.workers {
		w.begin(here(c)...)
		w.published()
	}
	argv := here(spec.Replicas["Launcher"].Template.Spec.Containers[0])
	argv[len(argv)-1] = program
	same(t, "ranks", j.launcher.launch(argv...).ok(t), fourOnTwo("rank %d of 4 on pi-worker-%d"))
}

// The command of indexed-job.yaml, as it stands there: all indexes succeed.
func TestIndexedJobExampleRuns(t *testing.T) {
	t.Parallel()
	program, err := exampleProgram()
	must(t, err)
	spec := pods(t, &example(t, "indexed-job.yaml")[1].Spec)[0]
	c := up(t, netns.IPv4, "cluster.local", "pi-0", "pi-1", "pi-2")
	secret := c.keygen()
	argv := slices.Clone(spec.Containers[0].Command)
	argv[len(argv)-1] = program
	var waits []func() result
	for _, index := range []string{"0", "1", "2"} {
		p := c.pod("pi-"+index, spec.Subdomain+".ns.svc.cluster.local")
		p.volumes = []volume{secret}
		p.env = []string{"JOB_COMPLETION_INDEX=" + index, "PATH=" + built + ":/usr/bin:/bin"}
		waits = append(waits, p.begin(argv...))
		p.published()
	}
	for i, wait := range waits {
		r := wait()
		r.says(t, 0)
		if i == 0 {
			r.says(t, 0, "rank 0 of 6 on pi-0", "rank 1 of 6 on pi-0", "rank 2 of 6 on pi-1", "rank 3 of 6 on pi-1",
				"rank 4 of 6 on pi-2", "rank 5 of 6 on pi-2")
		}
	}
}
