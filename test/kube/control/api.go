package control

import (
	"fmt"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	mpifake "github.com/kubeflow/mpi-operator/pkg/client/clientset/versioned/fake"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/testing"
)

// API is what an API server is for controllers: see the package's comment.
type API struct {
	Kube *fake.Clientset
	MPI  *mpifake.Clientset

	version atomic.Int64

	watches sync.WaitGroup

	mu        sync.Mutex
	changes   []chan struct{}                          // guarded by mu
	admits    []func(*corev1.Pod) error                // guarded by mu
	histories map[schema.GroupVersionResource]*history // guarded by mu
}

// NewAPI is an API without objects.
func NewAPI() *API {
	a := &API{Kube: fake.NewSimpleClientset(), MPI: mpifake.NewSimpleClientset(), histories: map[schema.GroupVersionResource]*history{}}
	a.rule(&a.Kube.Fake, a.Kube.Tracker())
	a.rule(&a.MPI.Fake, a.MPI.Tracker())
	return a
}

// Changes gets a value after every change of an object, or one for several. It has to be asked
// for before the changes.
func (a *API) Changes() <-chan struct{} {
	c := make(chan struct{}, 1)
	c <- struct{}{} // what there is already
	a.mu.Lock()
	defer a.mu.Unlock()
	a.changes = append(a.changes, c)
	return c
}

// changed tells everybody of a change.
func (a *API) changed(kind watch.EventType, resource schema.GroupVersionResource, object runtime.Object) {
	a.history(resource).add(kind, object)
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.changes {
		select {
		case c <- struct{}{}:
		default: // one is waiting
		}
	}
}

// rule puts the API's rules before a clientset's own. A clientset handles one request at a time,
// so reading and writing the tracker is one step.
func (a *API) rule(f *testing.Fake, tracker testing.ObjectTracker) {
	for verb, react := range map[string]func(testing.ObjectTracker, testing.Action) (runtime.Object, error){
		"create": a.create, "update": a.update, "delete": a.delete,
	} {
		f.PrependReactor(verb, "*", func(action testing.Action) (bool, runtime.Object, error) {
			object, err := react(tracker, action)
			return true, object, err
		})
	}
	f.PrependWatchReactor("*", a.watch)
}

// admit has pods changed or refused as they are created, as a mutating webhook does.
func (a *API) admit(pod func(*corev1.Pod) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.admits = append(a.admits, pod)
}

func (a *API) admitted(object runtime.Object) error {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, f := range a.admits {
		if err := f(pod); err != nil {
			return err
		}
	}
	return nil
}

func accessor(object runtime.Object) metav1.Object {
	m, err := meta.Accessor(object)
	if err != nil {
		panic(err) // clientsets have nothing but API objects
	}
	return m
}

func (a *API) next() string { return strconv.FormatInt(a.version.Add(1), 10) }

// create gives an object its identity and defaults.
func (a *API) create(tracker testing.ObjectTracker, action testing.Action) (runtime.Object, error) {
	object := action.(testing.CreateAction).GetObject().DeepCopyObject()
	if action.GetSubresource() != "" || action.GetResource().Resource == "events" {
		return object, nil // of events there would be many and nobody reads them
	}
	m := accessor(object)
	if m.GetName() == "" {
		m.SetName(m.GetGenerateName() + strconv.FormatInt(a.version.Add(1), 36))
	}
	version := a.next()
	m.SetNamespace(action.GetNamespace())
	m.SetUID(types.UID("uid-" + version))
	m.SetResourceVersion(version)
	m.SetGeneration(1)
	m.SetCreationTimestamp(metav1.Now())
	defaults(object)
	if err := a.admitted(object); err != nil {
		return nil, err
	}
	if err := tracker.Create(action.GetResource(), object, action.GetNamespace()); err != nil {
		return nil, err
	}
	a.changed(watch.Added, action.GetResource(), object)
	return object.DeepCopyObject(), nil
}

// update replaces an object's spec, or its status, if nobody has changed it meanwhile.
func (a *API) update(tracker testing.ObjectTracker, action testing.Action) (runtime.Object, error) {
	object := action.(testing.UpdateAction).GetObject().DeepCopyObject()
	m := accessor(object)
	stored, err := tracker.Get(action.GetResource(), action.GetNamespace(), m.GetName())
	if err != nil {
		return nil, err
	}
	old := accessor(stored)
	if v := m.GetResourceVersion(); v != "" && v != old.GetResourceVersion() {
		return nil, apierrors.NewConflict(action.GetResource().GroupResource(), m.GetName(),
			fmt.Errorf("it has version %s, not %s", old.GetResourceVersion(), v))
	}
	if action.GetSubresource() == "status" {
		stored = stored.DeepCopyObject()
		copyStatus(stored, object)
		object = stored
	} else {
		copyStatus(object, stored)
		m.SetUID(old.GetUID())
		m.SetDeletionTimestamp(old.GetDeletionTimestamp())
		m.SetCreationTimestamp(old.GetCreationTimestamp())
		m.SetGeneration(old.GetGeneration() + 1)
	}
	return a.put(tracker, action, object)
}

// put stores an object in place of what there was.
func (a *API) put(tracker testing.ObjectTracker, action testing.Action, object runtime.Object) (runtime.Object, error) {
	accessor(object).SetResourceVersion(a.next())
	if err := tracker.Update(action.GetResource(), object, action.GetNamespace()); err != nil {
		return nil, err
	}
	a.changed(watch.Modified, action.GetResource(), object)
	return object.DeepCopyObject(), nil
}

// copyStatus copies the field Status, where objects of the kind have one.
func copyStatus(to, from runtime.Object) {
	t, f := reflect.ValueOf(to).Elem().FieldByName("Status"), reflect.ValueOf(from).Elem().FieldByName("Status")
	if t.IsValid() && f.IsValid() {
		t.Set(f)
	}
}

// delete marks a pod for deletion; kubelet deletes it, with a grace period of 0, when its
// containers have ended. Other objects go at once.
func (a *API) delete(tracker testing.ObjectTracker, action testing.Action) (runtime.Object, error) {
	del := action.(testing.DeleteAction)
	stored, err := tracker.Get(action.GetResource(), action.GetNamespace(), del.GetName())
	if err != nil {
		return nil, err
	}
	options, m := del.GetDeleteOptions(), accessor(stored)
	if p := options.Preconditions; p != nil && p.UID != nil && *p.UID != m.GetUID() {
		return nil, apierrors.NewConflict(action.GetResource().GroupResource(), del.GetName(), fmt.Errorf("its UID is %s", m.GetUID()))
	}
	pod, ok := stored.(*corev1.Pod)
	if !ok || options.GracePeriodSeconds != nil && *options.GracePeriodSeconds == 0 {
		if err := tracker.Delete(action.GetResource(), action.GetNamespace(), del.GetName()); err != nil {
			return nil, err
		}
		a.changed(watch.Deleted, action.GetResource(), stored)
		return nil, nil
	}
	if pod.DeletionTimestamp != nil {
		return nil, nil
	}
	pod = pod.DeepCopy()
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now()}, options.GracePeriodSeconds
	return a.put(tracker, action, pod)
}

// defaults are those of the API server that controllers and kubelet read.
func defaults(object runtime.Object) {
	switch o := object.(type) {
	case *batchv1.Job:
		jobDefaults(o)
	case *corev1.Pod:
		if o.Spec.RestartPolicy == "" {
			o.Spec.RestartPolicy = corev1.RestartPolicyAlways
		}
		if o.Spec.DNSPolicy == "" {
			o.Spec.DNSPolicy = corev1.DNSClusterFirst
		}
		if o.Spec.ServiceAccountName == "" {
			o.Spec.ServiceAccountName = "default"
		}
		o.Status = corev1.PodStatus{Phase: corev1.PodPending}
	}
}
