package control

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// store is a store of its own for controllers that speak controller-runtime.
type store struct {
	// Client is for the objects that the controllers are for.
	Client client.Client

	api     *API
	changes <-chan struct{}
	submits chan struct{}
}

func newStore(a *API, b *fake.ClientBuilder) store {
	return store{Client: b.Build(), api: a, changes: a.Changes(), submits: make(chan struct{}, 1)}
}

// Submit creates an object in the store.
func (s *store) Submit(ctx context.Context, object client.Object) error {
	if object.GetUID() == "" {
		object.SetUID(types.UID("store-" + s.api.next()))
	}
	if err := s.Client.Create(ctx, object); err != nil {
		return err
	}
	select {
	case s.submits <- struct{}{}:
	default:
	}
	return nil
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
