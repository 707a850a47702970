package control

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/testing"
)

// history is all events of a kind of objects so far, for watches. Those of client-go's fake panic
// when a reader is 100 events behind, which it is on a slow machine, and miss what happens between
// a list and the watch; here a watch begins with the first event there ever was.
type history struct {
	mu     sync.Mutex
	events []watch.Event // guarded by mu
	more   chan struct{} // guarded by mu: closed and replaced with each event
}

func (h *history) add(kind watch.EventType, object runtime.Object) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, watch.Event{Type: kind, Object: object.DeepCopyObject()})
	close(h.more)
	h.more = make(chan struct{})
}

// after are the events from the nth on, and what closes when there are more.
func (h *history) after(n int) ([]watch.Event, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.events[n:], h.more
}

// watcher is one watch of a history; it implements watch.Interface.
type watcher struct {
	result chan watch.Event
	done   chan struct{}
	once   sync.Once
}

// ResultChan gives the events; it is closed after Stop.
func (w *watcher) ResultChan() <-chan watch.Event { return w.result }

// Stop ends the watch.
func (w *watcher) Stop() { w.once.Do(func() { close(w.done) }) }

// run hands out events until Stop.
func (w *watcher) run(h *history, namespace string) {
	defer close(w.result)
	for n := 0; ; {
		events, more := h.after(n)
		for _, e := range events {
			if namespace != "" && accessor(e.Object).GetNamespace() != namespace {
				continue
			}
			select {
			case w.result <- watch.Event{Type: e.Type, Object: e.Object.DeepCopyObject()}:
			case <-w.done:
				return
			}
		}
		n += len(events)
		select {
		case <-more:
		case <-w.done:
			return
		}
	}
}

func (a *API) history(resource schema.GroupVersionResource) *history {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := a.histories[resource]
	if h == nil {
		h = &history{more: make(chan struct{})}
		a.histories[resource] = h
	}
	return h
}

// watch answers a clientset's watches.
func (a *API) watch(action testing.Action) (bool, watch.Interface, error) {
	w := &watcher{result: make(chan watch.Event), done: make(chan struct{})}
	h := a.history(action.GetResource())
	a.watches.Go(func() { w.run(h, action.GetNamespace()) })
	return true, w, nil
}

// Wait waits until all watches have ended, which their users have stopped.
func (a *API) Wait() { a.watches.Wait() }
