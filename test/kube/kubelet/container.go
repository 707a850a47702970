package kubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	corev1 "k8s.io/api/core/v1"

	"github.com/mpiup/mpiup/test/netns"
)

// running is a container that was started.
type running struct {
	made *container
	cmd  *netns.Cmd
	twin bool // below unshare(1), beside other containers of the host
}

// container1 runs one container with its restarts to its end.
func (p *pod) container1(ctx context.Context, spec *corev1.Container, init bool) outcome {
	policy := p.object.Spec.RestartPolicy
	if policy == "" {
		policy = corev1.RestartPolicyAlways
	}
	for restarts := 0; ; restarts++ {
		out := p.once(ctx, spec, init, restarts)
		again := policy == corev1.RestartPolicyAlways && !init || policy != corev1.RestartPolicyNever && out.failed()
		if p.over(ctx) || !again || out.message != "" {
			return out
		}
		if restarts == 0 { // the first restart is at once
			continue
		}
		// Then come 10 s, 20 s and so on up to 300 s.
		wait := min(10<<min(restarts-1, 6), 300)
		if err := p.tell(func(s *standing) {
			waits(s.of(spec.Name), "CrashLoopBackOff", fmt.Sprintf("back-off %ds restarting failed container=%s pod=%s", wait, spec.Name, p.object.Name))
		}); err != nil || !p.pause(ctx, wait) {
			return out
		}
	}
}

// once runs one container to its end.
func (p *pod) once(ctx context.Context, spec *corev1.Container, init bool, restarts int) outcome {
	from := p.out.Len()
	r, err := p.started(ctx, spec)
	switch unstarted := (*startError)(nil); {
	case errors.As(err, &unstarted):
		if err := p.tell(func(s *standing) {
			s.of(spec.Name).RestartCount = int32(restarts)
			ended(s.of(spec.Name), init, corev1.ContainerStateTerminated{Reason: "StartError", ExitCode: 128, Message: unstarted.Error()})
		}); err != nil {
			return outcome{code: 128, message: err.Error()}
		}
		return outcome{code: 128}
	case err != nil:
		fmt.Fprintf(&p.out, "kubelet: container %s: %v\n", spec.Name, err)
		return outcome{code: 128, message: err.Error()}
	case r == nil: // the pod is to end
		return outcome{code: 137}
	}
	p.setRunning(r)
	defer p.setRunning(nil)
	if err := p.tell(func(s *standing) {
		runs(s.of(spec.Name), restarts)
		s.of(spec.Name).Ready = !init && spec.ReadinessProbe == nil
	}); err != nil {
		return outcome{code: 128, message: err.Error()}
	}
	probing, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	if !init {
		wg.Go(func() { p.probe(probing, spec) })
	}
	code := p.wait(ctx, spec, r)
	stop()
	wg.Wait()
	how := corev1.ContainerStateTerminated{ExitCode: int32(code), Reason: "Completed", Message: p.lastWords(spec, code, from)}
	if code != 0 {
		how.Reason = "Error"
	}
	if err := p.tell(func(s *standing) { ended(s.of(spec.Name), init, how) }); err != nil {
		return outcome{code: 128, message: err.Error()}
	}
	return outcome{ok: code == 0, code: code}
}

// lastWords is a container's termination message (pkg/kubelet/kuberuntime, getTerminationMessage): the end of its file,
// or, of a container that failed and asks for it, of what it has written.
func (p *pod) lastWords(spec *corev1.Container, code, from int) string {
	message, _ := os.ReadFile(p.dir("etc", "termination-log"))
	if len(message) > 0 || code == 0 || spec.TerminationMessagePolicy != corev1.TerminationMessageFallbackToLogsOnError {
		return string(message[max(0, len(message)-4096):])
	}
	lines := slices.Collect(strings.Lines(p.out.String()[from:]))
	text := strings.Join(lines[max(0, len(lines)-80):], "")
	return text[max(0, len(text)-2048):]
}

// wait waits for the container's end and gives its exit code. In a pod that is to end the hook before the end runs, then
// the container gets SIGTERM; all within the grace period. 128 and the signal stand for an end by signal.
func (p *pod) wait(ctx context.Context, spec *corev1.Container, r *running) int {
	ended := make(chan struct{})
	go func() { _ = r.cmd.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-ctx.Done():
	case <-p.stop:
		late, cancel := context.WithTimeout(ctx, p.grace()) // real: nothing waits for it that ends in time
		defer cancel()
		if l := spec.Lifecycle; l != nil {
			_, _, _ = p.exec(late, l.PreStop.Exec.Command...)
		}
		_ = r.signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-late.Done():
		}
	}
	_ = r.kill() // of what is still there
	<-ended
	status, _ := r.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return r.cmd.ProcessState.ExitCode()
}

func (p *pod) setRunning(r *running) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.container = r
}

func (p *pod) running() *running {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.container
}

// waitError is why a container cannot be made yet, by kubelet's word for it.
type waitError struct {
	reason string
	err    error
}

func (e *waitError) Error() string { return e.reason + ": " + e.err.Error() }

// startError is a command that cannot be executed.
type startError struct{ command string }

func (e *startError) Error() string {
	return fmt.Sprintf("exec: %q: executable file not found in $PATH", e.command)
}

// started is a container that runs, when what it wants has come; nil where the pod is to end before.
func (p *pod) started(ctx context.Context, spec *corev1.Container) (*running, error) {
	for {
		made, err := p.make(spec)
		wait := (*waitError)(nil)
		if err == nil {
			return p.start(ctx, made)
		}
		if !errors.As(err, &wait) {
			return nil, err
		}
		if err := p.tell(func(s *standing) { waits(s.of(spec.Name), wait.reason, wait.err.Error()) }); err != nil {
			return nil, err
		}
		if !p.pause(ctx, 1) {
			return nil, nil
		}
	}
}

// start begins a container's command.
func (p *pod) start(ctx context.Context, made *container) (*running, error) {
	if err := os.WriteFile(filepath.Join(made.etc, "termination-log"), nil, 0o666); err != nil {
		return nil, err
	}
	if err := os.Chmod(filepath.Join(made.etc, "termination-log"), 0o666); err != nil {
		return nil, err
	}
	r := &running{made: made, twin: p.object.Spec.HostNetwork}
	sh := []string{"/bin/sh", "-c", made.script()}
	if r.twin {
		unshare := []string{"unshare", "--mount", "--pid", "--ipc", "--fork", "--kill-child", "--mount-proc", "--"}
		r.cmd = p.k.cfg.Hosts.Command(context.WithoutCancel(ctx), p.host, append(unshare, sh...)...)
	} else {
		r.cmd = p.k.cfg.Hosts.RunInit(context.WithoutCancel(ctx), p.host, sh...)
	}
	set, begun, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer set.Close()
	r.cmd.Stdout, r.cmd.Stderr, r.cmd.ExtraFiles = &p.out, &p.out, []*os.File{begun}
	err = r.cmd.Start()
	begun.Close()
	if err != nil {
		return nil, err
	}
	begins := make([]byte, 1)
	_, _ = set.Read(begins) // the script's word, or the end when it failed
	if begins[0] == unfound {
		_ = r.cmd.Wait()
		return nil, &startError{made.argv[0]}
	}
	return r, nil
}

// make is the container that a spec asks for.
func (p *pod) make(spec *corev1.Container) (*container, error) {
	image, ok := p.k.cfg.Images[spec.Image]
	if !ok {
		reason := "ErrImagePull"
		if spec.ImagePullPolicy == corev1.PullNever {
			reason = "ErrImageNeverPull"
		}
		return nil, &waitError{reason, fmt.Errorf("there is no image %q", spec.Image)}
	}
	privilege, err := privileges(p.object, spec, image)
	if err != nil {
		return nil, unmade(err)
	}
	env, err := environment(p.object, spec, image, p.k)
	if err != nil {
		return nil, unmade(err)
	}
	mounts, err := p.mounts(spec)
	if err != nil {
		return nil, err
	}
	argv := image.argv(expandAll(spec.Command, env), expandAll(spec.Args, env))
	if len(argv) == 0 {
		return nil, &waitError{"CreateContainerError", errors.New("no command specified")}
	}
	c := &container{namespace: p.object.Namespace, shared: p.k.cfg.Shared, etc: p.dir("etc"), image: image, mounts: mounts,
		message: "/dev/termination-log", besteffort: len(spec.Resources.Limits)+len(spec.Resources.Requests) == 0,
		readOnly: readOnlyRoot(spec), workDir: "/", privilege: privilege, env: env, argv: argv,
		token: p.object.Spec.AutomountServiceAccountToken == nil || *p.object.Spec.AutomountServiceAccountToken}
	if !p.object.Spec.HostNetwork {
		c.hostname = hostname(p.object)
	}
	if path := spec.TerminationMessagePath; path != "" && path != c.message {
		c.message = path
		c.mounts = append(c.mounts, mount{at: path, source: filepath.Join(c.etc, "termination-log"), file: true})
	}
	if spec.WorkingDir != "" {
		c.workDir = spec.WorkingDir
	}
	return c, nil
}

// unmade is an error of a container's configuration, which kubelet tries again; what is not played never comes.
func unmade(err error) error {
	if errors.Is(err, errNotPlayed) {
		return err
	}
	return &waitError{"CreateContainerConfigError", err}
}

// mounts are the container's, those above others first.
func (p *pod) mounts(spec *corev1.Container) ([]mount, error) {
	var out []mount
	for _, m := range spec.VolumeMounts {
		i := slices.IndexFunc(p.object.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		if i < 0 {
			return nil, fmt.Errorf("volume mount %s: there is no such volume", m.Name)
		}
		v := &p.object.Spec.Volumes[i]
		source := p.dir("volumes", v.Name)
		made := mount{at: m.MountPath, source: filepath.Join(source, m.SubPath), readOnly: m.ReadOnly || v.EmptyDir == nil}
		if m.SubPath != "" {
			info, err := os.Stat(made.source)
			if err != nil {
				return nil, fmt.Errorf("volume mount %s: %w", m.Name, err)
			}
			made.file = !info.IsDir()
		}
		out = append(out, made)
	}
	slices.SortStableFunc(out, func(a, b mount) int { return strings.Count(a.at, "/") - strings.Count(b.at, "/") })
	return out, nil
}

// inside is the pid, outside, of the container's PID 1.
func (r *running) inside() (int, error) {
	pid := r.cmd.Process.Pid
	if !r.twin {
		return pid, nil
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pid))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

func (r *running) signal(sig syscall.Signal) error {
	pid, err := r.inside()
	if err != nil {
		return err
	}
	return syscall.Kill(pid, sig)
}

// kill ends the container's PID 1, and with it all of its processes.
func (r *running) kill() error {
	if r.twin && r.signal(syscall.SIGKILL) == nil {
		return nil
	}
	return r.cmd.Process.Kill()
}

// exec runs a command in the container that runs.
func (p *pod) exec(ctx context.Context, argv ...string) (string, int, error) {
	r := p.running()
	if r == nil {
		return "", -1, fmt.Errorf("no container of pod %s runs", p.object.Name)
	}
	argv = slices.Concat(r.made.privilege, []string{"/usr/bin/env", "-i"}, r.made.env, argv)
	var out output
	if r.twin {
		pid, err := r.inside()
		if err != nil {
			return "", -1, err
		}
		cmd := exec.CommandContext(ctx, "nsenter", append([]string{"-t", strconv.Itoa(pid), "-a", "--"}, argv...)...)
		cmd.Stdout, cmd.Stderr = &out, &out
		return after(&out, cmd, cmd.Run())
	}
	cmd := p.k.cfg.Hosts.Command(ctx, p.host, argv...)
	cmd.Stdout, cmd.Stderr = &out, &out
	return after(&out, cmd.Cmd, cmd.Run())
}

// after is a command's output and exit code; an error says that it did not run.
func after(out *output, cmd *exec.Cmd, err error) (string, int, error) {
	if cmd.ProcessState == nil {
		return out.String(), -1, err
	}
	return out.String(), cmd.ProcessState.ExitCode(), nil
}
