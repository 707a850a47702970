package kubectl

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Kind is a kind of job, by whose labels its pods are found.
type Kind struct {
	Name  string // as kubectl get writes it
	names []string
	label string           // whose value is the job's name; "": pods are found by their owner
	first func(p *Pod) int // lower is nearer to the pod that launches
}

const (
	mpiRole       = "training.kubeflow.org/job-role"
	replicatedJob = "jobset.sigs.k8s.io/replicatedjob-name"
	jobIndex      = "jobset.sigs.k8s.io/job-index"
	completion    = "batch.kubernetes.io/job-completion-index"
	workerIndex   = "leaderworkerset.sigs.k8s.io/worker-index"
	taskSpec      = "volcano.sh/task-spec"
)

// Kinds are all, and a TrainJob is found by its JobSet.
var Kinds = []Kind{
	{"MPIJob", []string{"mpijob", "mpijobs"}, "training.kubeflow.org/job-name", func(p *Pod) int { return side(p.label(mpiRole) != "launcher") }},
	{"JobSet", []string{"jobset", "jobsets", "trainjob", "trainjobs"}, "jobset.sigs.k8s.io/jobset-name", func(p *Pod) int {
		return 4*side(p.label(replicatedJob) != "launcher") + 2*side(p.label(jobIndex) != "0") + side(p.label(completion) != "0")
	}},
	{"Job", []string{"job", "jobs"}, "batch.kubernetes.io/job-name", func(p *Pod) int { return side(p.label(completion) != "" && p.label(completion) != "0") }},
	{"LeaderWorkerSet", []string{"lws", "leaderworkerset", "leaderworkersets"}, "leaderworkerset.sigs.k8s.io/name",
		func(p *Pod) int { return side(p.label(workerIndex) != "0") }},
	{"Volcano Job", []string{"vcjob", "vcjobs"}, "volcano.sh/job-name", func(p *Pod) int {
		return side(p.label(taskSpec) != "master" && p.label(taskSpec) != "launcher")
	}},
	{"StatefulSet", []string{"statefulset", "sts", "statefulsets"}, "", func(p *Pod) int { return side(!strings.HasSuffix(p.Metadata.Name, "-0")) }},
}

// side is 1 for any other than the one that is meant.
func side(other bool) int {
	if other {
		return 1
	}
	return 0
}

// Pod is what of a pod matters here.
type Pod struct {
	Metadata struct {
		Name      string            `json:"name"`
		Labels    map[string]string `json:"labels"`
		Created   string            `json:"creationTimestamp"` // RFC 3339 in UTC, which sorts as text
		Deleted   string            `json:"deletionTimestamp"`
		Owners    []owner           `json:"ownerReferences"`
		Namespace string            `json:"namespace"`
	} `json:"metadata"`
	Spec struct {
		Hostname   string `json:"hostname"`
		Subdomain  string `json:"subdomain"`
		Containers []struct {
			Name    string   `json:"name"`
			Command []string `json:"command"`
			Args    []string `json:"args"`
		} `json:"containers"`
	} `json:"spec"`
	Status struct {
		Phase string `json:"phase"`
	} `json:"status"`
}

type owner struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

func (p *Pod) label(name string) string { return p.Metadata.Labels[name] }

// runs says that a command can be run in the pod.
func (p *Pod) runs() bool { return p.Status.Phase == "Running" && p.Metadata.Deleted == "" }

// List is the words of a kubectl that prints pods as JSON, and the kind of job that they would be of.
type List struct {
	Kind  Kind
	Words []string
}

// Lists are those that find the line's job. Pods of a StatefulSet have no label with its name, so that its list, the last, is of all pods.
func (l *Line) Lists() (lists []List) {
	for _, k := range Kinds {
		if l.Kind != "" && l.Kind != k.Name {
			continue
		}
		words := append([]string{"get", "pods", "--output=json"}, l.where...)
		if k.label != "" {
			words = append(words, "--selector="+k.label+"="+l.Job)
		}
		lists = append(lists, List{k, words})
	}
	return lists
}

// Found is the pods of a job of one kind.
type Found struct {
	Kind Kind
	Pods []Pod
}

// Read takes a list's output; pods of other jobs are left out.
func (l *Line) Read(list List, output []byte) (Found, error) {
	var got struct {
		Items []Pod `json:"items"`
	}
	if err := json.Unmarshal(output, &got); err != nil {
		return Found{}, fmt.Errorf("kubectl %s: %w", strings.Join(list.Words, " "), err)
	}
	if list.Kind.label == "" {
		got.Items = slices.DeleteFunc(got.Items, func(p Pod) bool {
			return !slices.Contains(p.Metadata.Owners, owner{list.Kind.Name, l.Job})
		})
	}
	return Found{list.Kind, got.Items}, nil
}

// One is the words of a kubectl that prints the pod of --pod. Nothing is listed.
func (l *Line) One() []string {
	return append([]string{"get", "pod", l.Pod, "--output=json"}, l.where...)
}

// ReadOne takes the pod that One printed, which must be one of the line's job.
func (l *Line) ReadOne(output []byte) ([]Found, error) {
	var p Pod
	if err := json.Unmarshal(output, &p); err != nil {
		return nil, fmt.Errorf("kubectl get pod %s: %w", l.Pod, err)
	}
	for _, k := range Kinds {
		if (l.Kind == "" || l.Kind == k.Name) && (k.label != "" && p.label(k.label) == l.Job || slices.Contains(p.Metadata.Owners, owner{k.Name, l.Job})) {
			return []Found{{k, []Pod{p}}}, nil
		}
	}
	return nil, fmt.Errorf("pod %s is none of a %s %s", l.Pod, cmp.Or(l.Kind, "job"), l.Job)
}

// Choose is the pod that launches, or else one of the job's that runs; note says that it is another. A log is read of the newest that
// launched.
func (l *Line) Choose(all []Found) (p *Pod, note string, err error) {
	all = slices.DeleteFunc(slices.Clone(all), func(f Found) bool { return len(f.Pods) == 0 })
	switch {
	case len(all) == 0:
		kind := cmp.Or(l.Kind, "MPIJob, TrainJob, JobSet, Job, LeaderWorkerSet, Volcano Job or StatefulSet")
		return nil, "", fmt.Errorf("%s has no pods of a %s %s; kubectl get pods shows what is there, -n names another namespace", l.place(), kind, l.Job)
	case len(all) > 1:
		var names []string
		for _, f := range all {
			names = append(names, f.Kind.names[0]+"/"+l.Job)
		}
		return nil, "", fmt.Errorf("%s has several jobs of that name: write %s", l.place(), strings.Join(names, " or "))
	}
	k, pods := all[0].Kind, all[0].Pods
	l.address(pods)
	if l.Pod != "" {
		i := slices.IndexFunc(pods, func(p Pod) bool { return p.Metadata.Name == l.Pod })
		if i < 0 {
			return nil, "", fmt.Errorf("%s %s has no pod %s: %s", k.Name, l.Job, l.Pod, names(pods))
		}
		return &pods[i], "", nil
	}
	slices.SortStableFunc(pods, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(k.first(&a), k.first(&b)), -cmp.Compare(a.Metadata.Created, b.Metadata.Created), cmp.Compare(a.Metadata.Name, b.Metadata.Name))
	})
	if l.Reads() || l.Collects() {
		return &pods[0], "", nil
	}
	i := slices.IndexFunc(pods, func(p Pod) bool { return p.runs() })
	if i < 0 {
		return nil, "", fmt.Errorf("%s %s has no pod that runs: %s; kubectl mpiup logs %s reads the log of the one that launched", k.Name, l.Job, names(pods), l.Job)
	}
	if first := &pods[0]; i > 0 && k.first(&pods[i]) > k.first(first) {
		note = fmt.Sprintf("pod %s, which launches, is %s: %s is asked instead", first.Metadata.Name, first.state(), pods[i].Metadata.Name)
	}
	return &pods[i], note, nil
}

// address gives the pod that an exec is for its name in DNS, which has the subdomain. It may have been called by its name or its host name.
func (l *Line) address(pods []Pod) {
	if l.Command != "exec" {
		return
	}
	for _, p := range pods {
		host := cmp.Or(p.Spec.Hostname, p.Metadata.Name)
		if w := l.Words[0]; p.Spec.Subdomain != "" && (w == p.Metadata.Name || w == host) {
			l.Words = append([]string{host + "." + p.Spec.Subdomain}, l.Words[1:]...)
			return
		}
	}
}

func (l *Line) place() string {
	if n := l.Namespace(); n != "" {
		return "namespace " + n
	}
	return "the namespace of your kubeconfig"
}

func (p *Pod) state() string {
	if p.Metadata.Deleted != "" {
		return "being deleted"
	}
	return cmp.Or(p.Status.Phase, "in no phase yet")
}

// names are pods with their phases, the first few.
func names(pods []Pod) string {
	const most = 5
	var list []string
	for i := range pods[:min(len(pods), most)] {
		list = append(list, fmt.Sprintf("%s (%s)", pods[i].Metadata.Name, pods[i].state()))
	}
	if n := len(pods) - most; n > 0 {
		list = append(list, fmt.Sprintf("and %d more", n))
	}
	return strings.Join(list, ", ")
}

// mpiup is the program in the pod: the one that the container's command is, else the one on PATH.
func (l *Line) mpiup(p *Pod) string {
	if l.Mpiup != "" {
		return l.Mpiup
	}
	for i, c := range p.Spec.Containers {
		if l.Container != "" && c.Name != l.Container || l.Container == "" && i > 0 {
			continue
		}
		for _, w := range slices.Concat(c.Command, c.Args) {
			if path.Base(w) == "mpiup" {
				return w
			}
		}
	}
	return "mpiup"
}
