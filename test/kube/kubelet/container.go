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
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
		if p.over(ctx) || !again {
			return out
		}
		// The first restart is at once, then come 10 s, 20 s and so on up to 300 s.
		if restarts > 0 && !p.pause(ctx, min(10<<min(restarts-1, 6), 300)) {
			return out
		}
	}
}

// once runs one container to its end.
func (p *pod) once(ctx context.Context, spec *corev1.Container, init bool, restarts int) outcome {
	r, err := p.start(ctx, spec)
	if err != nil {
		fmt.Fprintf(&p.out, "kubelet: container %s: %v\n", spec.Name, err)
		_ = p.k.status(p.object, func(s *corev1.PodStatus) { s.Message = err.Error() })
		return outcome{code: 128, message: err.Error()}
	}
	p.setRunning(r)
	defer p.setRunning(nil)
	if !init {
		if err := p.k.status(p.object, func(s *corev1.PodStatus) {
			s.Phase, s.Message = corev1.PodRunning, ""
			s.ContainerStatuses = []corev1.ContainerStatus{{Name: spec.Name, RestartCount: int32(restarts),
				State:                corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
				LastTerminationState: last(s)}}
		}); err != nil {
			return outcome{code: 128, message: err.Error()}
		}
	}
	probing, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	if !init {
		wg.Go(func() { p.probe(probing, spec, r) })
	}
	code := p.wait(ctx, r)
	stop()
	wg.Wait()
	if !init {
		message, _ := os.ReadFile(p.dir("etc", "termination-log"))
		_ = p.k.status(p.object, func(s *corev1.PodStatus) {
			setReady(s, false)
			s.ContainerStatuses[0].Ready = false
			s.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: int32(code), Message: string(message), FinishedAt: metav1.Now()}}
		})
	}
	return outcome{ok: code == 0, code: code}
}

// last is the state that a restarted container had before.
func last(s *corev1.PodStatus) corev1.ContainerState {
	if len(s.ContainerStatuses) == 0 {
		return corev1.ContainerState{}
	}
	return s.ContainerStatuses[0].State
}

// wait waits for the container's end and gives its exit code. A pod that is deleted gets SIGTERM
// and has its grace period; 128 and the signal stand for an end by signal.
func (p *pod) wait(ctx context.Context, r *running) int {
	ended := make(chan struct{})
	go func() { _ = r.cmd.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-ctx.Done():
	case <-p.deleted:
		grace := 30 * time.Second // real ones: nothing waits for them that ends in time
		if s := p.object.Spec.TerminationGracePeriodSeconds; s != nil {
			grace = time.Duration(*s) * time.Second
		}
		_ = r.signal(syscall.SIGTERM)
		t := time.NewTimer(grace)
		defer t.Stop()
		select {
		case <-ended:
		case <-t.C:
		case <-ctx.Done():
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

// start makes a container and begins its command.
func (p *pod) start(ctx context.Context, spec *corev1.Container) (*running, error) {
	made, err := p.make(spec)
	if err != nil {
		return nil, err
	}
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
	_, _ = set.Read(make([]byte, 1)) // the script's line, or the end when it failed
	return r, nil
}

// make is the container that a spec asks for.
func (p *pod) make(spec *corev1.Container) (*container, error) {
	image, ok := p.k.cfg.Images[spec.Image]
	if !ok {
		return nil, fmt.Errorf("ErrImagePull: there is no image %q", spec.Image)
	}
	privilege, err := privileges(p.object, spec, image)
	if err != nil {
		return nil, err
	}
	env, err := environment(p.object, spec, image, p.k)
	if err != nil {
		return nil, err
	}
	mounts, err := p.mounts(spec)
	if err != nil {
		return nil, err
	}
	argv := image.argv(expandAll(spec.Command, env), expandAll(spec.Args, env))
	if len(argv) == 0 {
		return nil, errors.New("CreateContainerError: no command specified")
	}
	c := &container{namespace: p.object.Namespace, shared: p.k.cfg.Shared, etc: p.dir("etc"), image: image, mounts: mounts,
		readOnly: readOnlyRoot(spec), workDir: "/", privilege: privilege, env: env, argv: argv,
		token: p.object.Spec.AutomountServiceAccountToken == nil || *p.object.Spec.AutomountServiceAccountToken}
	if !p.object.Spec.HostNetwork {
		c.hostname = hostname(p.object)
	}
	if spec.WorkingDir != "" {
		c.workDir = spec.WorkingDir
	}
	return c, nil
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
