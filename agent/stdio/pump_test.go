package stdio

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/job"
)

// forever is longer than any test may take; what a test waits for comes long before.
const forever = time.Minute

// rank is a process as the pump sees it: write ends of pipes, and what came out.
type rank struct {
	t        *testing.T
	out, err *os.File // write ends
	exited   chan struct{}
	pump     *Pump
	chunks   chan Chunk
	done     chan result
	cancel   context.CancelFunc
}

type result struct {
	cut bool
	err error
}

func start(t *testing.T, cfg Config) *rank {
	t.Helper()
	f, err := Pipes(false)
	if err != nil {
		t.Fatal(err)
	}
	r := &rank{t: t, out: f.Child[1], err: f.Child[2], exited: make(chan struct{}),
		chunks: make(chan Chunk, 1<<16), done: make(chan result, 1)}
	f.Child[0].Close()
	cfg.Out, cfg.Err, cfg.Exited = f.Out, f.Err, r.exited
	if cfg.Emit == nil {
		cfg.Emit = func(c Chunk) { r.chunks <- c; r.pump.Grant(len(c.Data)) }
	}
	r.pump = NewPump(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	r.cancel = cancel
	go func() {
		cut, err := r.pump.Run(ctx)
		close(r.chunks)
		r.done <- result{cut, err}
	}()
	t.Cleanup(func() { cancel(); r.out.Close(); r.err.Close() })
	return r
}

func (r *rank) print(f *os.File, s string) {
	r.t.Helper()
	if _, err := f.WriteString(s); err != nil {
		r.t.Fatal(err)
	}
}

// next is the next chunk.
func (r *rank) next() Chunk {
	r.t.Helper()
	select {
	case c := <-r.chunks:
		return c
	case <-time.After(forever):
		r.t.Fatal("no chunk")
	}
	return Chunk{}
}

func (r *rank) want(s job.Stream, data string, partial bool) {
	r.t.Helper()
	c := r.next()
	if c.Stream != s || string(c.Data) != data || c.Partial != partial {
		r.t.Fatalf("got %v %q partial=%v, want %v %q partial=%v", c.Stream, c.Data, c.Partial, s, data, partial)
	}
}

// end waits for Run and returns what came until then.
func (r *rank) end(cut bool) string {
	r.t.Helper()
	var b strings.Builder
	for {
		select {
		case c, ok := <-r.chunks:
			b.Write(c.Data)
			if ok {
				continue
			}
		case <-time.After(forever):
			r.t.Fatal("the pump does not end")
		}
		break
	}
	res := <-r.done
	if res.err != nil || res.cut != cut {
		r.t.Fatalf("Run: cut=%v, %v; want cut=%v", res.cut, res.err, cut)
	}
	return b.String()
}

func TestLinesArriveAtOnce(t *testing.T) {
	r := start(t, Config{Quiet: forever})
	r.print(r.out, "a\nb\nc")
	r.want(job.Stdout, "a\nb\n", false)
	r.print(r.out, "d\n")
	r.want(job.Stdout, "cd\n", false)
	r.print(r.err, "e\n")
	r.want(job.Stderr, "e\n", false)
	r.print(r.out, "last")
	r.out.Close()
	r.want(job.Stdout, "last", true)
	r.err.Close()
	r.end(false)
}

func TestPromptAppears(t *testing.T) {
	r := start(t, Config{})
	r.print(r.out, "name? ")
	r.want(job.Stdout, "name? ", true)
	r.print(r.out, "10%\r20%")
	r.want(job.Stdout, "10%\r", false)
	r.want(job.Stdout, "20%", true)
}

// Without grants a rank blocks in write(2), and no more than the window has been read.
func TestBackPressure(t *testing.T) {
	const window = 64 << 10
	var mu sync.Mutex
	emitted := 0
	full := make(chan struct{}, 1)
	r := start(t, Config{Window: window, Emit: func(c Chunk) {
		mu.Lock()
		defer mu.Unlock()
		emitted += len(c.Data)
		if emitted < window*3/4 {
			return
		}
		select {
		case full <- struct{}{}:
		default:
		}
	}})
	const total = 4 << 20
	wrote := make(chan error, 1)
	go func() {
		err := flood(r.out, total)
		r.out.Close()
		r.err.Close()
		wrote <- err
	}()
	<-full
	select {
	case err := <-wrote:
		t.Fatalf("the rank wrote everything (%v) though nothing was granted", err)
	case <-time.After(2 * defaultQuiet):
	}
	mu.Lock()
	if emitted > window {
		t.Errorf("%d bytes in flight, window %d", emitted, window)
	}
	mu.Unlock()
	for granted := 0; granted < total; {
		<-full
		mu.Lock()
		n := emitted - granted
		mu.Unlock()
		r.pump.Grant(n)
		granted += n
	}
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
	<-r.done
}

// flood writes n bytes of 80-byte lines, until nobody reads any more.
func flood(w io.Writer, n int) error {
	block := bytes.Repeat(append(bytes.Repeat([]byte("x"), 79), '\n'), 800)
	for n > 0 {
		k, err := w.Write(block[:min(n, len(block))])
		if err != nil {
			return err
		}
		n -= k
	}
	return nil
}

func TestStderrPassesAFullStdout(t *testing.T) {
	chunks := make(chan Chunk, 1<<10)
	r := start(t, Config{Window: 64 << 10, Emit: func(c Chunk) { chunks <- c }})
	go flood(r.out, 1<<20) // ends when Run closes the pipe
	n := 0
	for n < 48<<10 {
		n += len((<-chunks).Data)
	}
	r.print(r.err, "why\n")
	for c := range chunks {
		if c.Stream == job.Stderr {
			break
		}
	}
	r.cancel()
	if res := <-r.done; !res.cut || !errors.Is(res.err, context.Canceled) {
		t.Errorf("Run: %+v", res)
	}
}

func TestGrandchildHoldsThePipe(t *testing.T) {
	r := start(t, Config{DrainBound: 50 * time.Millisecond})
	r.print(r.out, "last words")
	close(r.exited)
	if got := r.end(true); got != "last words" {
		t.Errorf("got %q", got)
	}
	if _, err := r.out.WriteString("x"); !errors.Is(err, os.ErrClosed) && err == nil {
		t.Error("the pipe is still read")
	}
}

// Who ends the pump early, or keeps it from reading, makes no process hold a stream that none has open.
func TestNobodyHoldsAClosedPipe(t *testing.T) {
	t.Run("stopped with something to read", func(t *testing.T) {
		r := start(t, Config{Window: 4096})
		r.print(r.out, strings.Repeat("0123456789abcde\n", 1024))
		r.print(r.err, "why\n")
		r.out.Close()
		r.err.Close()
		close(r.exited)
		r.cancel()
		r.end(false)
	})
	t.Run("stopped with a full window", func(t *testing.T) {
		taken := make(chan struct{}, 1<<16)
		r := start(t, Config{Window: 4096, Emit: func(Chunk) { taken <- struct{}{} }}) // nothing is granted
		r.print(r.out, strings.Repeat("0123456789abcde\n", 1024))
		<-taken
		r.out.Close()
		r.err.Close()
		close(r.exited)
		r.cancel()
		if res := <-r.done; res.cut {
			t.Errorf("Run: %+v", res)
		}
	})
}

// Data that was there before the bound ran out is read, however late this process gets to it.
func TestLargeRestAfterExit(t *testing.T) {
	r := start(t, Config{DrainBound: time.Millisecond})
	want := bytes.Repeat([]byte("0123456789\n"), 10_000)
	go func() {
		r.out.Write(want)
		r.out.Close()
		r.err.Close()
		close(r.exited)
	}()
	if got := r.end(false); got != string(want) {
		t.Errorf("got %d bytes, want %d", len(got), len(want))
	}
}

func TestQuietBeforeExitDoesNotCount(t *testing.T) {
	const bound = 400 * time.Millisecond
	r := start(t, Config{DrainBound: bound})
	timer := time.NewTimer(2 * bound) // the rank computes, and then exits
	<-timer.C
	close(r.exited)
	at := time.Now()
	r.end(true)
	if d := time.Since(at); d < bound {
		t.Errorf("given up after %v, want %v from the exit", d, bound)
	}
}

func TestFilesThatCannotBePolled(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err = NewPump(Config{Rank: 3, Out: f}).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "rank 3: read stdout") {
		t.Errorf("got %v", err)
	}
}
