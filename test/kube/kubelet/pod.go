package kubelet

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pod is one pod from its first sight to the end of its last container.
type pod struct {
	k      *Kubelet
	object *corev1.Pod // as first seen, with its addresses from the start on
	order  int
	out    output
	ips    []netip.Addr
	host   string // of the test's

	deleted  chan struct{} // closed when the pod is to end
	ungated  chan struct{} // closed when the pod has no scheduling gates
	onDelete sync.Once
	onUngate sync.Once

	mu        sync.Mutex
	container *running       // guarded by mu: the one that runs
	versions  map[string]int // guarded by mu: of the volumes that were written
	contents  map[string][]byte
}

var orders atomic.Int64

func newPod(k *Kubelet, object *corev1.Pod) *pod {
	return &pod{k: k, object: object.DeepCopy(), order: int(orders.Add(1)), deleted: make(chan struct{}), ungated: make(chan struct{}),
		versions: map[string]int{}, contents: map[string][]byte{}}
}

// seen looks at the pod's object.
func (p *pod) seen(object *corev1.Pod) {
	if object.DeletionTimestamp != nil {
		p.onDelete.Do(func() { close(p.deleted) })
	}
	if len(object.Spec.SchedulingGates) == 0 {
		p.onUngate.Do(func() { close(p.ungated) })
	}
}

// run is the pod's life. An error ends the test's cluster: what fails in a pod is its status.
func (p *pod) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	verdict := p.live(ctx)
	if p.host != "" && !p.object.Spec.HostNetwork {
		p.k.giveBack(p.host)
	}
	if ctx.Err() != nil {
		return nil
	}
	select {
	case <-p.deleted:
	default:
		if err := p.k.status(p.object, verdict.into); err != nil {
			return err
		}
		select { // a pod's object stays until somebody deletes it
		case <-p.deleted:
		case <-ctx.Done():
			return nil
		}
	}
	now := int64(0)
	err := p.k.cfg.Client.CoreV1().Pods(p.object.Namespace).Delete(ctx, p.object.Name,
		metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &p.object.UID}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// live takes the pod from scheduling to the end of its containers.
func (p *pod) live(ctx context.Context) outcome {
	select {
	case <-p.ungated:
	case <-p.deleted:
		return outcome{}
	case <-ctx.Done():
		return outcome{}
	}
	if err := p.playable(); err != nil {
		return outcome{message: err.Error()}
	}
	if !p.schedule(ctx) || !p.volumes(ctx) {
		return outcome{}
	}
	for i := range p.object.Spec.InitContainers {
		if out := p.container1(ctx, &p.object.Spec.InitContainers[i], true); out.failed() || p.over(ctx) {
			return out
		}
	}
	return p.container1(ctx, &p.object.Spec.Containers[0], false)
}

// over says whether the pod is to end.
func (p *pod) over(ctx context.Context) bool {
	select {
	case <-p.deleted:
		return true
	default:
		return ctx.Err() != nil
	}
}

// pause waits, in seconds of the API; false when the pod is to end.
func (p *pod) pause(ctx context.Context, seconds int) bool {
	t := time.NewTimer(time.Duration(seconds) * p.k.cfg.Second)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-p.deleted:
	case <-ctx.Done():
	}
	return false
}

// playable refuses what this package does not do.
func (p *pod) playable() error {
	s := &p.object.Spec
	switch {
	case len(s.Containers) != 1:
		return notPlayed(fmt.Sprintf("a pod with %d containers", len(s.Containers)))
	case s.HostPID || s.HostIPC || s.ShareProcessNamespace != nil && *s.ShareProcessNamespace:
		return notPlayed("sharing of processes")
	case s.SetHostnameAsFQDN != nil && *s.SetHostnameAsFQDN:
		return notPlayed("setHostnameAsFQDN")
	case s.Containers[0].LivenessProbe != nil || s.Containers[0].StartupProbe != nil || s.Containers[0].Lifecycle != nil:
		return notPlayed("a probe but for readiness, or a hook")
	}
	for _, c := range append(s.InitContainers[:len(s.InitContainers):len(s.InitContainers)], s.Containers...) {
		if c.RestartPolicy != nil {
			return notPlayed("a sidecar container")
		}
		for _, m := range c.VolumeMounts {
			if !placed(m.MountPath) {
				return notPlayed("a mount at " + m.MountPath)
			}
		}
	}
	return nil
}

// schedule finds a host and gives the pod its addresses.
func (p *pod) schedule(ctx context.Context) bool {
	p.host = p.k.cfg.Node
	if !p.object.Spec.HostNetwork {
		for p.host = p.k.take(); p.host == ""; p.host = p.k.take() {
			if !p.pause(ctx, 1) {
				return false
			}
		}
	}
	p.ips = p.k.cfg.Addresses(p.host)
	place := func(s *corev1.PodStatus) {
		s.Phase, s.HostIP, s.PodIP, s.PodIPs = corev1.PodPending, p.k.cfg.Addresses(p.k.cfg.Node)[0].String(), p.ips[0].String(), nil
		for _, ip := range p.ips {
			s.PodIPs = append(s.PodIPs, corev1.PodIP{IP: ip.String()})
		}
	}
	place(&p.object.Status)
	return p.k.status(p.object, place) == nil
}

func (p *pod) dir(names ...string) string {
	return filepath.Join(append([]string{p.k.cfg.Dir, string(p.object.UID)}, names...)...)
}

// volumes waits until all that the volumes need is there, and writes them.
func (p *pod) volumes(ctx context.Context) bool {
	for {
		err := p.writeVolumes()
		if err == nil {
			return true
		}
		if p.k.status(p.object, func(s *corev1.PodStatus) { s.Message = "FailedMount: " + err.Error() }) != nil || !p.pause(ctx, 1) {
			return false
		}
	}
}

func (p *pod) writeVolumes() error {
	etc := p.dir("etc")
	if err := os.MkdirAll(etc, 0o755); err != nil {
		return err
	}
	for name, text := range map[string]string{
		"hosts":       hostsFile(p.object, p.k.cfg.Domain, p.ips, p.host),
		"resolv.conf": resolvConf(p.object, p.k.cfg.Domain, p.k.cfg.Nameserver),
	} {
		if err := os.WriteFile(filepath.Join(etc, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	for i := range p.object.Spec.Volumes {
		v := &p.object.Spec.Volumes[i]
		if v.EmptyDir != nil {
			if err := writeEmptyDir(p.dir("volumes", v.Name), fsGroup(p.object)); err != nil {
				return err
			}
			continue
		}
		if err := p.writeFiles(v); err != nil {
			return err
		}
	}
	return nil
}

// writeFiles writes a volume of files, if they are not there yet.
func (p *pod) writeFiles(v *corev1.Volume) error {
	files, err := volumeFiles(p.object, v, p.k)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	text := fmt.Append(nil, files)
	if bytes.Equal(text, p.contents[v.Name]) {
		return nil
	}
	p.contents[v.Name] = text
	p.versions[v.Name]++
	return writeVolume(p.dir("volumes", v.Name), files, fsGroup(p.object), p.versions[v.Name])
}

// renew writes volumes again whose ConfigMaps have changed, as kubelet does sooner or later.
func (p *pod) renew() error {
	if p.running() == nil {
		return nil
	}
	for i := range p.object.Spec.Volumes {
		v := &p.object.Spec.Volumes[i]
		if v.ConfigMap == nil {
			continue
		}
		if err := p.writeFiles(v); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// outcome is how a pod ended.
type outcome struct {
	ok      bool
	code    int
	message string // of kubelet: why there was no container to end
}

func (o outcome) failed() bool { return !o.ok }

func (o outcome) into(s *corev1.PodStatus) {
	s.Phase, s.Message = corev1.PodSucceeded, o.message
	if o.failed() {
		s.Phase = corev1.PodFailed
	}
	setReady(s, false)
}

func setReady(s *corev1.PodStatus, ready bool) {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	for i := range s.Conditions {
		if s.Conditions[i].Type == corev1.PodReady {
			s.Conditions[i].Status = status
			return
		}
	}
	s.Conditions = append(s.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: status})
}

// output takes what containers write; it may be read meanwhile.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (o *output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(text)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
