package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
)

// space is a namespace of the cluster and a watch on its pods.
type space struct {
	testing.TB
	name string

	mu    sync.Mutex
	begun time.Time
	pods  map[string]pod
	gone  map[string]pod    // by UID, as they were at last
	said  map[string]string // the last line about each pod
}

// pod is what tests look at of a pod.
type pod struct {
	Metadata struct {
		Name, UID         string
		Labels            map[string]string
		CreationTimestamp time.Time
		DeletionTimestamp *time.Time
	}
	Spec   struct{ NodeName string }
	Status struct {
		Phase, Reason, Message string
		ContainerStatuses      []container
	}
}

type container struct {
	Ready            bool
	RestartCount     int
	State, LastState struct {
		Waiting    *struct{ Reason string }
		Running    *struct{ StartedAt time.Time }
		Terminated *ended
	}
}

type ended struct {
	ExitCode        int
	Reason, Message string
}

func (p pod) container() container {
	if len(p.Status.ContainerStatuses) == 0 {
		return container{}
	}
	return p.Status.ContainerStatuses[0]
}

// line is a pod as the transcript has it.
func (p pod) line() string {
	c, line := p.container(), p.Status.Phase
	switch {
	case c.State.Terminated != nil:
		line += " " + c.State.Terminated.line()
	case c.State.Waiting != nil:
		line += " " + c.State.Waiting.Reason
	case c.Ready:
		line += " ready"
	}
	if c.RestartCount > 0 && c.LastState.Terminated != nil {
		line += fmt.Sprintf(", restart %d after %s", c.RestartCount, c.LastState.Terminated.line())
	}
	if p.Status.Reason != "" {
		line += " (" + p.Status.Reason + ")"
	}
	if p.Metadata.DeletionTimestamp != nil {
		line += ", going"
	}
	return line
}

func (e *ended) line() string {
	line := fmt.Sprintf("%s %d", e.Reason, e.ExitCode)
	if e.Message != "" {
		line += fmt.Sprintf(" %q", e.Message)
	}
	return line
}

// asked skips the test where nobody asks for the cluster.
func asked(t testing.TB) {
	t.Helper()
	need.Asked(t, "MPIUP_CLUSTER", "1, on the cluster that make cluster started,")
}

// namespace makes a namespace that is removed after the test. Its name is of this run: that of the run before may be going. By its
// label check.sh finds what a run that was killed has left.
func namespace(t testing.TB, labels ...string) *space {
	t.Helper()
	asked(t)
	s := &space{TB: t, name: strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name())) + "-" + strconv.FormatInt(time.Now().Unix()%(1<<24), 36),
		begun: time.Now(), pods: map[string]pod{}, gone: map[string]pod{}, said: map[string]string{}}
	manifest := fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s, labels: {%s}}}",
		s.name, strings.Join(append(labels, `example.com/checked: ""`), ", "))
	if _, err := s.kubectl(manifest, "create", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.k("delete", "namespace", s.name, "--wait=false") })
	s.watch()
	return s
}

// k is kubectl in the namespace, which must succeed, and what it printed.
func (s *space) k(args ...string) string {
	s.Helper()
	out, err := s.kubectl("", args...)
	if err != nil {
		s.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
	}
	return out
}

// kubectl is kubectl in the namespace, with a standard input.
func (s *space) kubectl(stdin string, args ...string) (string, error) {
	cmd := exec.Command("./k", append([]string{"-n", s.name}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	return string(out), err
}

// watch keeps the namespace's pods in mind until the test ends.
func (s *space) watch() {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), "./k", "-n", s.name, "get", "pods", "--watch", "--output-watch-events", "-o", "json")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for in := json.NewDecoder(out); ; {
			var e struct {
				Type   string
				Object pod
			}
			if err := in.Decode(&e); err != nil {
				if !errors.Is(err, io.EOF) && s.Context().Err() == nil {
					s.Errorf("the watch on pods: %v", err)
				}
				return
			}
			s.changed(e.Type, e.Object)
		}
	}()
	s.Cleanup(func() { <-done; _ = cmd.Wait() }) // it was killed
}

func (s *space) changed(what string, p pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := p.line()
	if s.pods[p.Metadata.Name] = p; what == "DELETED" {
		delete(s.pods, p.Metadata.Name)
		s.gone[p.Metadata.UID] = p
		line = "gone"
	}
	if s.said[p.Metadata.Name] != line {
		s.said[p.Metadata.Name] = line
		s.Logf("%5.1f s  %s %s", time.Since(s.begun).Seconds(), p.Metadata.Name, line)
	}
}

// pod is the pod whose name begins so, of several the one that was not there before; the zero pod where there is none.
func (s *space) pod(prefix string, before ...string) pod {
	s.mu.Lock()
	defer s.mu.Unlock()
next:
	for name, p := range s.pods {
		if strings.HasPrefix(name, prefix) {
			for _, b := range before {
				if b == p.Metadata.UID {
					continue next
				}
			}
			return p
		}
	}
	return pod{}
}

// known is the name of the pod whose name begins so, when the watch has told of it.
func (s *space) known(prefix string) string {
	s.Helper()
	s.until("there is "+prefix, func() bool { return s.pod(prefix).Metadata.Name != "" })
	return s.pod(prefix).Metadata.Name
}

// say is a line of the transcript.
func (s *space) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Logf("%5.1f s  %s", time.Since(s.begun).Seconds(), fmt.Sprintf(format, args...))
}

// apply applies a manifest, and time begins. Trainer refuses a TrainJob until it has seen the runtime that stands before it in the
// manifest.
func (s *space) apply(manifest string) {
	s.Helper()
	s.mu.Lock()
	s.begun = time.Now()
	s.mu.Unlock()
	s.until("the manifest is applied", func() bool {
		out, err := s.kubectl(manifest, "apply", "-f", "-")
		if err != nil && !strings.Contains(err.Error(), "must be created before the TrainJob is created") {
			s.Fatalf("kubectl apply: %v\n%s", err, out)
		}
		return err == nil
	})
}

// until waits for what another process does. Who has to be asked for it by a program is asked for half the time at most: others are
// to have the machine meanwhile.
func (s *space) until(what string, ok func() bool) {
	s.Helper()
	var next time.Time
	lab.Eventually(s, what, func() bool {
		asked := time.Now()
		if asked.Before(next) {
			return false
		}
		is := ok()
		next = time.Now().Add(time.Since(asked))
		return is
	})
	s.say("%s", what)
}

// becomes waits for a condition of an object.
func (s *space) becomes(condition, object string) {
	s.Helper()
	if out, err := s.kubectl("", "wait", "--for=condition="+condition, object, "--timeout="+lab.Bound.String()); err != nil {
		all, _ := s.kubectl("", "get", "pods,events")
		s.Fatalf("%s is not %s: %v\n%s\n%s", object, condition, err, out, all)
	}
	s.say("%s %s", object, condition)
}

// logs is what a pod's first container wrote; of its last attempt with "--previous".
func (s *space) logs(pod string, flags ...string) string {
	s.Helper()
	return s.k(append([]string{"logs", pod}, flags...)...)
}

// example is a file below examples.
func example(t testing.TB, path string) string {
	t.Helper()
	return file(t, filepath.Join("../../examples", path))
}

func file(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// changedTo replaces texts of a manifest, each of which must be there.
func changedTo(t testing.TB, manifest string, oldnew ...string) string {
	t.Helper()
	for i := 0; i < len(oldnew); i += 2 {
		if !strings.Contains(manifest, oldnew[i]) {
			t.Fatalf("the manifest has no %q:\n%s", oldnew[i], manifest)
		}
		manifest = strings.ReplaceAll(manifest, oldnew[i], oldnew[i+1])
	}
	return manifest
}

// run is a command of this machine, and what it printed.
func (s *space) run(name string, args ...string) string {
	s.Helper()
	out, err := exec.Command(name, args...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	if err != nil {
		s.Fatalf("%s: %v", name, err)
	}
	return string(out)
}

// source is a file of the module of an operator.
func (s *space) source(module, path string) string {
	s.Helper()
	dir := s.run("bash", "-c", ". ./versions.sh; source_of operators "+module)
	return file(s, filepath.Join(strings.TrimSpace(dir), path))
}
