package control

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// store is a store of its own for controllers that speak controller-runtime.
type store struct {
	// Client is for the objects that the controllers are for.
	Client client.Client

	api     *API
	changes <-chan struct{}
	submits chan struct{}
	known   map[types.UID]string // run's: versions of the API's pods that the store has
}

func newStore(a *API, b *fake.ClientBuilder) store {
	rules := interceptor.Funcs{Create: a.createInStore, Apply: a.applyInStore, Get: getFromStore}
	return store{Client: b.WithInterceptorFuncs(rules).Build(), api: a, changes: a.Changes(), submits: make(chan struct{}, 1), known: map[types.UID]string{}}
}

func (a *API) storeUID() types.UID { return types.UID("store-" + a.next()) }

// createInStore gives an object its identity, as an API server does: JobSet finds its Jobs by the UID of their owner.
func (a *API) createInStore(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.CreateOption) error {
	if object.GetUID() == "" {
		object.SetUID(a.storeUID())
	}
	return c.Create(ctx, object, opts...)
}

// applyInStore is the same for what a server-side apply creates.
func (a *API) applyInStore(ctx context.Context, c client.WithWatch, applied runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	if err := c.Apply(ctx, applied, opts...); err != nil {
		return err
	}
	text, err := json.Marshal(applied)
	if err != nil {
		return err
	}
	var object unstructured.Unstructured
	if err := json.Unmarshal(text, &object); err != nil {
		return err
	}
	if object.GetUID() != "" { // applied has become the object that is stored
		return nil
	}
	return c.Patch(ctx, &object, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"uid":%q}}`, a.storeUID())))
}

// getFromStore puts the kind into what is read, as a manager's cache does. Trainer writes a runtime that it has read into a
// snapshot, and refuses one without a kind.
func getFromStore(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	if err := c.Get(ctx, key, object, opts...); err != nil {
		return err
	}
	kind, err := apiutil.GVKForObject(object, c.Scheme())
	if err != nil {
		return err
	}
	object.GetObjectKind().SetGroupVersionKind(kind)
	return nil
}

// Submit creates an object in the store.
func (s *store) Submit(ctx context.Context, object client.Object) error {
	if err := s.Client.Create(ctx, object); err != nil {
		return err
	}
	s.wake()
	return nil
}

// wake has everything looked at again.
func (s *store) wake() {
	select {
	case s.submits <- struct{}{}:
	default: // it will be
	}
}

// pull brings the API's pods with a label into the store, and says whether there was news of one.
func (s *store) pull(ctx context.Context, label string) (news bool, err error) {
	pods, err := s.api.Kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: label})
	if err != nil {
		return false, err
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		version, known := s.known[p.UID]
		if version == p.ResourceVersion {
			continue
		}
		s.known[p.UID], news = p.ResourceVersion, true
		status := p.Status
		p.ResourceVersion, p.DeletionTimestamp, p.Status = "", nil, corev1.PodStatus{}
		if !known {
			err = s.Client.Create(ctx, p)
		} else {
			err = s.Client.Get(ctx, client.ObjectKeyFromObject(p), p)
		}
		if err != nil {
			return news, err
		}
		before := p.DeepCopy()
		p.Status = status
		if err := s.Client.Status().Patch(ctx, p, client.MergeFrom(before)); err != nil {
			return news, err
		}
	}
	return news, nil
}

// run calls sync on every change, and again while sync says that it has learnt of changes, until
// ctx ends.
func (s *store) run(ctx context.Context, who string, sync func(context.Context) (again bool, err error)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.changes:
		case <-s.submits:
		}
		for again := true; again && ctx.Err() == nil; {
			var err error
			if again, err = sync(ctx); err != nil && ctx.Err() == nil {
				return fmt.Errorf("%s: %w", who, err)
			}
		}
	}
}

// indexer puts an index into a store that is being built.
type indexer struct{ *fake.ClientBuilder }

// IndexField implements client.FieldIndexer.
func (i indexer) IndexField(_ context.Context, object client.Object, field string, values client.IndexerFunc) error {
	i.WithIndex(object, field, values)
	return nil
}

// nothing takes indexes that only watches use.
type nothing struct{}

// IndexField implements client.FieldIndexer.
func (nothing) IndexField(context.Context, client.Object, string, client.IndexerFunc) error {
	return nil
}
