package kubelet

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/mpiup/mpiup/test/netns"
)

// Config is what a Kubelet works with. All fields but Token are needed.
type Config struct {
	Client kubernetes.Interface
	// Changes gets a value after objects have changed.
	Changes <-chan struct{}
	Hosts   *netns.Cluster
	// Free are the hosts that pods get, one each. A host serves another pod only after all
	// others, so that a pod made anew has another address.
	Free []string
	// Node is the host whose network hostNetwork pods have and probes come from.
	Node string
	// Addresses are a host's, of the cluster's first family first.
	Addresses func(host string) []netip.Addr
	// Nameserver is that of the cluster, and Domain its domain.
	Nameserver netip.Addr
	Domain     string
	// Images are all images there are, by name.
	Images map[string]Image
	// Dir is for the pods' volumes. It lies below /tmp and is shared by all hosts.
	Dir string
	// Shared is the directory at or above Dir that all hosts see.
	Shared string
	// Second is how long a second of the Pods' specs takes.
	Second time.Duration
	// Token makes what service accounts of a namespace show to an audience, for projected volumes; nil: there are none.
	Token func(namespace, audience string) (string, error)
}

// Kubelet runs all pods of a cluster.
type Kubelet struct {
	cfg Config

	mu   sync.Mutex
	pods map[types.UID]*pod // guarded by mu: all that ever ran
	free []string           // guarded by mu
}

// New builds a Kubelet; nothing runs before Run.
func New(cfg Config) *Kubelet {
	return &Kubelet{cfg: cfg, pods: map[types.UID]*pod{}, free: slices.Clone(cfg.Free)}
}

// Run runs pods until ctx ends, and waits for the end of all of them.
func (k *Kubelet) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		for {
			if err := k.sync(ctx, g); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return nil
			case <-k.cfg.Changes:
			}
		}
	})
	return g.Wait()
}

// sync begins pods that are new and ends those that are to be deleted.
func (k *Kubelet) sync(ctx context.Context, g *errgroup.Group) error {
	list, err := k.cfg.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range list.Items {
		object := &list.Items[i]
		p := k.pods[object.UID]
		if p == nil {
			p = newPod(k, object)
			p.object.Spec.NodeName = k.cfg.Node // there is one
			k.pods[object.UID] = p
			g.Go(func() error { return p.run(ctx) })
		}
		p.seen(object)
	}
	for uid, p := range k.pods {
		if !slices.ContainsFunc(list.Items, func(o corev1.Pod) bool { return o.UID == uid }) {
			p.forced()
			continue
		}
		if err := p.renew(); err != nil {
			return err
		}
	}
	return nil
}

// take is a free host, "" while there is none.
func (k *Kubelet) take() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.free) == 0 {
		return ""
	}
	host := k.free[0]
	k.free = k.free[1:]
	return host
}

func (k *Kubelet) giveBack(host string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.free = append(k.free, host)
}

// Find is the pod of that name or host name that was made last. It tells no error: a pod that is
// not there has no output and executes nothing.
func (k *Kubelet) find(name string) *pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	var last *pod
	for _, p := range k.pods {
		if (p.object.Name == name || hostname(p.object) == name) && (last == nil || p.order > last.order) {
			last = p
		}
	}
	return last
}

// Output is what all containers have written of all pods so far that have the name or host name,
// in the order of the pods.
func (k *Kubelet) Output(name string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var found []*pod
	for _, p := range k.pods {
		if p.object.Name == name || hostname(p.object) == name {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b *pod) int { return a.order - b.order })
	var b strings.Builder
	for _, p := range found {
		b.WriteString(p.out.String())
	}
	return b.String()
}

// Exec runs a command in the running container of a pod, as kubectl exec and exec probes do.
// The pod is named by its name or host name.
func (k *Kubelet) Exec(ctx context.Context, name string, argv ...string) (output string, code int, err error) {
	p := k.find(name)
	if p == nil {
		return "", -1, fmt.Errorf("there is no pod %s", name)
	}
	return p.exec(ctx, argv...)
}

// Kill sends SIGKILL to the running container of a pod, as the kernel does when memory runs out.
func (k *Kubelet) Kill(name string) error {
	p := k.find(name)
	if p == nil {
		return fmt.Errorf("there is no pod %s", name)
	}
	r := p.running()
	if r == nil {
		return fmt.Errorf("no container of pod %s runs", name)
	}
	return r.kill()
}

func (k *Kubelet) secret(namespace, name string) (map[string][]byte, error) {
	s, err := k.cfg.Client.CoreV1().Secrets(namespace).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return s.Data, nil
}

func (k *Kubelet) token(namespace, audience string) (string, error) {
	if k.cfg.Token == nil {
		return "", notPlayed("a projected token")
	}
	return k.cfg.Token(namespace, audience)
}

func (k *Kubelet) configMap(namespace, name string) (map[string][]byte, error) {
	c, err := k.cfg.Client.CoreV1().ConfigMaps(namespace).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	data := map[string][]byte{}
	for key, text := range c.Data {
		data[key] = []byte(text)
	}
	for key, bin := range c.BinaryData {
		data[key] = bin
	}
	return data, nil
}

// status changes the pod's status in the API. A pod that is gone has none.
func (k *Kubelet) status(object *corev1.Pod, change func(*corev1.PodStatus)) error {
	pods := k.cfg.Client.CoreV1().Pods(object.Namespace)
	for {
		now, err := pods.Get(context.Background(), object.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && now.UID != object.UID {
			return nil
		}
		if err != nil {
			return err
		}
		change(&now.Status)
		_, err = pods.UpdateStatus(context.Background(), now, metav1.UpdateOptions{})
		if !apierrors.IsConflict(err) {
			return err
		}
	}
}
