package kubelet

import (
	"bytes"
	"context"
	"errors"
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

	deleted  chan struct{} // closed when the pod is deleted
	stop     chan struct{} // closed when the pod is to end: it is deleted, or its time is up
	ungated  chan struct{} // closed when the pod has no scheduling gates
	onDelete sync.Once
	onStop   sync.Once
	onUngate sync.Once

	telling  sync.Mutex
	standing standing // guarded by telling

	late    atomic.Bool  // its time is up
	seconds atomic.Int64 // of grace

	mu        sync.Mutex
	container *running       // guarded by mu: the one that runs
	versions  map[string]int // guarded by mu: of the volumes that were written
	contents  map[string][]byte
}

var orders atomic.Int64

func newPod(k *Kubelet, object *corev1.Pod) *pod {
	p := &pod{k: k, object: object.DeepCopy(), order: int(orders.Add(1)), deleted: make(chan struct{}), stop: make(chan struct{}), ungated: make(chan struct{}),
		versions: map[string]int{}, contents: map[string][]byte{}}
	p.seconds.Store(30)
	if s := object.Spec.TerminationGracePeriodSeconds; s != nil {
		p.seconds.Store(*s)
	}
	return p
}

// seen looks at the pod's object.
func (p *pod) seen(object *corev1.Pod) {
	if object.DeletionTimestamp != nil {
		if s := object.DeletionGracePeriodSeconds; s != nil {
			p.seconds.Store(*s)
		}
		p.onDelete.Do(func() { close(p.deleted) })
		p.onStop.Do(func() { close(p.stop) })
	}
	if len(object.Spec.SchedulingGates) == 0 {
		p.onUngate.Do(func() { close(p.ungated) })
	}
}

// forced says that the pod's object is gone: somebody deleted it without a grace period.
func (p *pod) forced() {
	p.seconds.Store(0)
	p.onDelete.Do(func() { close(p.deleted) })
	p.onStop.Do(func() { close(p.stop) })
}

// grace is how long the pod's containers may take to end.
func (p *pod) grace() time.Duration { return time.Duration(p.seconds.Load()) * time.Second }

// run is the pod's life. An error ends the test's cluster: what fails in a pod is its status.
func (p *pod) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer p.limit()()
	verdict := p.live(ctx)
	if p.host != "" && !p.object.Spec.HostNetwork {
		p.k.giveBack(p.host)
	}
	if ctx.Err() != nil {
		return nil
	}
	if err := p.tell(func(s *standing) { s.ends(verdict) }); err != nil {
		return err
	}
	select { // a pod's object stays until somebody deletes it
	case <-p.deleted:
	case <-ctx.Done():
		return nil
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
	if len(p.object.Spec.SchedulingGates) > 0 && p.tell(func(*standing) {}) != nil {
		return outcome{}
	}
	select {
	case <-p.ungated:
	case <-p.stop:
		return outcome{}
	case <-ctx.Done():
		return outcome{}
	}
	if err := p.playable(); err != nil {
		return outcome{message: err.Error()}
	}
	if !p.schedule(ctx) {
		return p.expired(outcome{})
	}
	if err := p.volumes(ctx); err != nil {
		return outcome{message: err.Error()}
	}
	if p.over(ctx) {
		return p.expired(outcome{})
	}
	if p.tell(func(s *standing) { s.sandbox, s.hostIP, s.ips = true, p.object.Status.HostIP, p.object.Status.PodIPs }) != nil {
		return outcome{}
	}
	for i := range p.object.Spec.InitContainers {
		if out := p.container1(ctx, &p.object.Spec.InitContainers[i], true); out.failed() || p.over(ctx) {
			return p.expired(out)
		}
	}
	return p.expired(p.container1(ctx, &p.object.Spec.Containers[0], false))
}

// limit ends the pod after its activeDeadlineSeconds, if it has any.
func (p *pod) limit() (cancel func()) {
	seconds := p.object.Spec.ActiveDeadlineSeconds
	if seconds == nil {
		return func() {}
	}
	t := time.AfterFunc(time.Duration(*seconds)*time.Second, func() { p.late.Store(true); p.onStop.Do(func() { close(p.stop) }) })
	return func() { t.Stop() }
}

// expired is an outcome, with what is to say where the pod's time was up.
func (p *pod) expired(o outcome) outcome {
	if p.late.Load() {
		o.reason, o.message = "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"
	}
	return o
}

// over says whether the pod is to end.
func (p *pod) over(ctx context.Context) bool {
	select {
	case <-p.stop:
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
	case <-p.stop:
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
	case s.Containers[0].LivenessProbe != nil || s.Containers[0].StartupProbe != nil:
		return notPlayed("a probe but for readiness")
	case !hooked(s.Containers[0].Lifecycle):
		return notPlayed("a hook but a command before the end")
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
		if path := c.TerminationMessagePath; path != "" && path != "/dev/termination-log" && !placed(path) {
			return notPlayed("a message at " + path)
		}
	}
	return nil
}

// hooked says whether these hooks are played.
func hooked(l *corev1.Lifecycle) bool {
	return l == nil || l.PostStart == nil && l.StopSignal == nil && l.PreStop != nil && l.PreStop.Exec != nil
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
	s := &p.object.Status
	s.HostIP, s.PodIP = p.k.cfg.Addresses(p.k.cfg.Node)[0].String(), p.ips[0].String()
	for _, ip := range p.ips {
		s.PodIPs = append(s.PodIPs, corev1.PodIP{IP: ip.String()})
	}
	return p.bind(ctx) == nil && p.tell(func(s *standing) { *s = scheduled(&p.object.Spec); s.hostIP = p.object.Status.HostIP }) == nil
}

// bind says in the API which node has the pod. A pod that is gone needs none.
func (p *pod) bind(ctx context.Context) error {
	pods := p.k.cfg.Client.CoreV1().Pods(p.object.Namespace)
	for {
		now, err := pods.Get(ctx, p.object.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && now.UID != p.object.UID {
			return nil
		}
		if err != nil {
			return err
		}
		now.Spec.NodeName = p.k.cfg.Node
		if _, err := pods.Update(ctx, now, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			return err
		}
	}
}

func (p *pod) dir(names ...string) string {
	return filepath.Join(append([]string{p.k.cfg.Dir, string(p.object.UID)}, names...)...)
}

// volumes waits until all that the volumes need is there, and writes them.
func (p *pod) volumes(ctx context.Context) error {
	for {
		err := p.writeVolumes()
		if err == nil || errors.Is(err, errNotPlayed) {
			return err
		}
		if !p.pause(ctx, 1) {
			return nil // live sees why
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
			if err := openTo(p.dir("volumes", v.Name), v.EmptyDir.Medium == corev1.StorageMediumMemory, fsGroup(p.object)); err != nil {
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
	dir := p.dir("volumes", v.Name)
	if err := writeVolume(dir, files, fsGroup(p.object), p.versions[v.Name]); err != nil {
		return err
	}
	return openTo(dir, v.ConfigMap == nil, fsGroup(p.object)) // all but a ConfigMap's are in memory
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
	reason  string // of kubelet, why it ended the pod
	message string // of kubelet: why there was no container to end
}

func (o outcome) failed() bool { return !o.ok }

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

func (o *output) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Len()
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
