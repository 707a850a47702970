package kubelet_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/mpiup/mpiup/test/golden"
)

// ns is the namespace of all pods.
const ns = "contract"

// cluster is where pods of the table run: the played kubelet's, or a real one.
type cluster struct {
	kube kubernetes.Interface
	// output is what all containers of a pod have written, init containers first.
	output func(ctx context.Context, t *testing.T, pod string) string
	// bound is far beyond what a pod takes here.
	bound time.Duration
}

// TestPods runs a table of pods, testdata/pods/*.txtar, and compares what becomes of them with what became of them under
// a real kubelet. The files are written there: MPIUP_CLUSTER=1 runs the table on the cluster that make cluster started,
// and with -update records it.
//
//	comment
//	-- refused --     what the played kubelet says of a pod that it does not play
//	-- first.yaml --  objects that are there before the pod; none: nothing
//	-- pod.yaml --    its name is the file's
//	-- script --      what is waited for and done, see play; none: until the pod has ended
//	-- later.yaml --  objects that the script makes
//	-- status --      the pod's last status, see told
//	-- output --      what its containers wrote
func TestPods(t *testing.T) {
	files, err := filepath.Glob("testdata/pods/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, error %v", files, err)
	}
	c := played
	if real() {
		c = kubernetesOf
	}
	in := c(t)
	t.Run("of", func(t *testing.T) {
		for _, file := range files {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
				t.Parallel()
				in.check(t, file)
			})
		}
	})
}

func (c *cluster) check(t *testing.T, file string) {
	archive, err := txtar.ParseFile(file)
	must(t, err)
	name := strings.TrimSuffix(filepath.Base(file), ".txtar")
	text := map[string]string{}
	for _, f := range archive.Files {
		text[f.Name] = string(f.Data)
	}
	c.make(t, text["first.yaml"])
	object := &corev1.Pod{}
	must(t, yaml.UnmarshalStrict([]byte(text["pod.yaml"]), object))
	for _, containers := range [][]corev1.Container{object.Spec.InitContainers, object.Spec.Containers} {
		for i := range containers {
			if containers[i].Image == "" {
				containers[i].Image = debian
			}
		}
	}
	object.Name, object.Namespace = name, ns
	seen := c.watch(t, name)
	_, err = c.kube.CoreV1().Pods(ns).Create(t.Context(), object, metav1.CreateOptions{})
	must(t, err)
	if refusal := text["refused"]; refusal != "" && !real() {
		seen.until(t, "it is refused", func(states []state) bool {
			return strings.Contains(states[len(states)-1].pod.Status.Message, strings.TrimSpace(refusal))
		})
		return
	}
	script := text["script"]
	if script == "" {
		script = "ended\n"
	}
	last, gone := seen.settled(t, c.play(t, seen, script, text["later.yaml"]), text["status"])
	output := ""
	if !gone {
		output = known(last, c.output(t.Context(), t, name))
		c.remove(t, name)
	}
	made := archive.Files[:0]
	for _, f := range archive.Files {
		if f.Name != "status" && f.Name != "output" {
			made = append(made, f)
		}
	}
	archive.Files = append(made, txtar.File{Name: "status", Data: []byte(told(last))})
	if output != "" {
		archive.Files = append(archive.Files, txtar.File{Name: "output", Data: []byte(output)})
	}
	if golden.Updating() && !real() {
		t.Fatal("these files say what a real kubelet does: MPIUP_CLUSTER=1 writes them")
	}
	golden.Is(t, file, string(txtar.Format(archive)))
}

// remove deletes a pod at once.
func (c *cluster) remove(t *testing.T, name string) {
	t.Helper()
	now := int64(0)
	must(t, c.kube.CoreV1().Pods(ns).Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
}

// play plays a script:
//
//	see TEXT   waits for a state of the pod with TEXT in its line, see line; it may be the one last seen or come after it.
//	           As the last step it chooses the state that is compared: the pod goes on meanwhile
//	make       makes the objects of later.yaml
//	delete     deletes the pod, as kubectl does
//	gone       waits until the pod is no more
//	ended      waits until its phase is Succeeded or Failed, and nothing of it is left on the node
//
// It returns what tells the states that may be compared.
func (c *cluster) play(t *testing.T, s *sight, script, later string) (chosen func([]state) []state) {
	t.Helper()
	at := 0
	newest := func(states []state) []state { return states[len(states)-1:] }
	for step := range strings.Lines(script) {
		word, rest, _ := strings.Cut(strings.TrimSpace(step), " ")
		chosen = newest
		switch word {
		case "see":
			chosen = func(states []state) []state {
				end := at
				for end < len(states) && strings.Contains(states[end].line, rest) {
					end++
				}
				return states[at:end]
			}
			s.until(t, step, func(states []state) bool {
				for at < len(states) && !strings.Contains(states[at].line, rest) {
					at++
				}
				return at < len(states)
			})
		case "make":
			c.make(t, later)
		case "delete":
			must(t, c.kube.CoreV1().Pods(ns).Delete(t.Context(), s.name, metav1.DeleteOptions{}))
		case "gone":
			s.until(t, step, func(states []state) bool { return states[len(states)-1].gone })
		case "ended":
			s.until(t, step, func(states []state) bool {
				status := &states[len(states)-1].pod.Status
				return (status.Phase == corev1.PodSucceeded || status.Phase == corev1.PodFailed) &&
					!slices.ContainsFunc(status.Conditions, func(c corev1.PodCondition) bool {
						return c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionTrue
					})
			})
		default:
			t.Fatalf("there is no step %q", step)
		}
	}
	return chosen
}

// make creates ConfigMaps and Secrets.
func (c *cluster) make(t *testing.T, manifests string) {
	t.Helper()
	for _, m := range strings.Split(manifests, "\n---\n") {
		var kind metav1.TypeMeta
		must(t, yaml.Unmarshal([]byte(m), &kind))
		var err error
		switch kind.Kind {
		case "":
		case "ConfigMap":
			o := &corev1.ConfigMap{}
			must(t, yaml.UnmarshalStrict([]byte(m), o))
			_, err = c.kube.CoreV1().ConfigMaps(ns).Create(t.Context(), o, metav1.CreateOptions{})
		case "Secret":
			o := &corev1.Secret{}
			must(t, yaml.UnmarshalStrict([]byte(m), o))
			for key, text := range o.StringData { // as the API server does
				o.Data = map[string][]byte{key: []byte(text)}
			}
			_, err = c.kube.CoreV1().Secrets(ns).Create(t.Context(), o, metav1.CreateOptions{})
		default:
			t.Fatalf("no %s is made here", kind.Kind)
		}
		if !apierrors.IsAlreadyExists(err) {
			must(t, err)
		}
	}
}

// sight is all states that a pod has had.
type sight struct {
	name  string
	bound time.Duration
	over  chan struct{}

	mu     sync.Mutex
	states []state       // guarded by mu
	more   chan struct{} // guarded by mu: closed and replaced with each state
}

type state struct {
	pod  *corev1.Pod
	line string
	gone bool
}

// watch sees a pod until the test ends.
func (c *cluster) watch(t *testing.T, name string) *sight {
	t.Helper()
	s := &sight{name: name, bound: c.bound, over: make(chan struct{}), more: make(chan struct{})}
	w, err := c.kube.CoreV1().Pods(ns).Watch(t.Context(), metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()})
	must(t, err)
	begun := time.Now()
	go func() {
		defer close(s.over)
		for e := range w.ResultChan() {
			if p, ok := e.Object.(*corev1.Pod); ok && p.Name == name {
				s.add(t, begun, state{p, line(p), e.Type == watch.Deleted})
			}
		}
	}()
	t.Cleanup(func() { w.Stop(); <-s.over })
	return s
}

func (s *sight) add(t *testing.T, begun time.Time, st state) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.states); n == 0 || s.states[n-1].line != st.line || st.gone {
		gone := ""
		if st.gone {
			gone = ", gone"
		}
		t.Logf("%6.2f s %s%s", time.Since(begun).Seconds(), st.line, gone)
	}
	s.states = append(s.states, st)
	close(s.more)
	s.more = make(chan struct{})
}

// settled is the state to compare: of those that may be, one with this status. A kubelet tells of containers and conditions in several
// steps, so it is waited for, for as long as the pod stays as it is. The last one, where there is none or files are written.
func (s *sight) settled(t *testing.T, chosen func([]state) []state, status string) (p *corev1.Pod, gone bool) {
	t.Helper()
	const patience = 10 * time.Second
	for late := time.After(patience); ; {
		s.mu.Lock()
		all, more := s.states, s.more
		s.mu.Unlock()
		may := chosen(all)
		last := may[len(may)-1]
		i := slices.IndexFunc(may, func(st state) bool { return told(st.pod) == status })
		if i >= 0 {
			last = may[i]
		}
		if i >= 0 || golden.Updating() || last.gone || all[len(all)-1].pod != last.pod {
			return last.pod, last.gone
		}
		select {
		case <-more:
		case <-late:
			return last.pod, last.gone
		}
	}
}

// until waits for states.
func (s *sight) until(t *testing.T, what string, ok func([]state) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), s.bound)
	defer cancel()
	for {
		s.mu.Lock()
		states, more := s.states, s.more
		s.mu.Unlock()
		if len(states) > 0 && ok(states) {
			return
		}
		select {
		case <-more:
		case <-s.over:
			t.Fatalf("the watch has ended before: %s", what)
		case <-ctx.Done():
			t.Fatalf("not within %v: %s", s.bound, what)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// line is a pod's state in a line, as "Running main=running,ready".
func line(p *corev1.Pod) string {
	out := string(p.Status.Phase)
	if p.Status.Reason != "" {
		out += "(" + p.Status.Reason + ")"
	}
	for _, s := range append(p.Status.InitContainerStatuses[:len(p.Status.InitContainerStatuses):len(p.Status.InitContainerStatuses)], p.Status.ContainerStatuses...) {
		out += fmt.Sprintf(" %s=%s", s.Name, condition(s.State))
		switch {
		case s.Ready:
			out += ",ready"
		case s.State.Running != nil:
			out += ",not ready"
		}
		if s.RestartCount > 0 {
			out += fmt.Sprintf(",restarts %d", s.RestartCount)
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			out += " " + c.Reason
		}
	}
	if p.DeletionTimestamp != nil {
		out += " deleted"
	}
	return out
}
