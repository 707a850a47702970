package look

import "sync"

// Ear hears what a process writes to its standard error: it keeps the last bytes, for where a crash was, and hands on to whoever listens. The
// zero value has heard nothing.
type Ear struct {
	mu   sync.Mutex
	last []byte       // guarded by mu
	to   func([]byte) // nil: nobody listens; guarded by mu
}

// earLength is how many bytes an Ear keeps: a handler's back-trace.
const earLength = 8 << 10

// Take hears bytes, in order.
func (e *Ear) Take(b []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last = append(e.last, b[max(len(b)-earLength, 0):]...)
	if over := len(e.last) - earLength; over > 0 {
		e.last = append(e.last[:0], e.last[over:]...)
	}
	if e.to != nil {
		e.to(b)
	}
}

// To hands on to f until the function that it returns is called.
func (e *Ear) To(f func([]byte)) (end func()) {
	set := func(f func([]byte)) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.to = f
	}
	set(f)
	return func() { set(nil) }
}

// Last is what it has kept.
func (e *Ear) Last() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return string(e.last)
}
