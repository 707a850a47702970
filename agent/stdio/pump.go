package stdio

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mpiup/mpiup/internal/job"
)

// Config says what a Pump reads and where it goes.
type Config struct {
	Rank int // for Tee and errors

	// Out and Err are the read ends of the rank's pipes, or Out is the master of its terminal
	// and Err is nil. They must be non-blocking, as Pipes and Pty make them. Run closes them.
	Out, Err *os.File

	// Window is how many bytes may be in flight, both streams together. Default 1 MiB, at
	// least 4 KiB.
	Window int

	// Emit takes a chunk. It is called from one goroutine per stream, in order, and must not
	// block for long: it holds up the rank.
	Emit func(Chunk)

	// Exited is closed when the process has ended. Nil: never, only EOF ends the pump.
	Exited <-chan struct{}

	// ExitedAt is when the wait for other processes begins, asked when Exited is closed. Nil: then.
	ExitedAt func() time.Time

	// DrainBound is how long the pump waits for data after Exited while another process keeps
	// the stream open. Each byte starts it anew, and time in which the window is used up does
	// not count. Default 2 s.
	DrainBound time.Duration

	// Quiet is how long the beginning of a line is held in the hope for the rest of it, from
	// its first byte. Default 75 ms: prompts and progress bars must appear.
	Quiet time.Duration

	// Tee gets a copy of everything, if set.
	Tee *Tee
}

// DefaultWindow is the window that keeps a rank writing at full speed while its output
// travels to the launcher and credit comes back (measured by test/iobench: a quarter of it is nearly
// as fast without a network; at 1 ms of round trip it allows about 1 GB/s a rank).
const DefaultWindow = 1 << 20

const (
	minWindow         = 4 << 10
	defaultDrainBound = 2 * time.Second
	defaultQuiet      = 75 * time.Millisecond
)

// Pump turns one rank's output into chunks.
type Pump struct {
	cfg    Config
	window *window
	stop   chan struct{} // closed when Run's context has ended

	mu      sync.Mutex
	exited  time.Time // when the process was seen to have ended, guarded by mu
	stopped bool      // guarded by mu
}

// NewPump returns a pump that Run starts.
func NewPump(cfg Config) *Pump {
	cfg.Window = max(cmp.Or(cfg.Window, DefaultWindow), minWindow)
	cfg.DrainBound, cfg.Quiet = cmp.Or(cfg.DrainBound, defaultDrainBound), cmp.Or(cfg.Quiet, defaultQuiet)
	return &Pump{cfg: cfg, window: newWindow(cfg.Window), stop: make(chan struct{})}
}

// Grant gives back n bytes of window: they have left the launcher. Any goroutine may call it,
// also before Run and after it.
func (p *Pump) Grant(n int) { p.window.grant(n) }

// Run reads until both streams are at their end. Everything read has then been emitted. cut
// says that a stream was given up while another process still held it open: DrainBound ran
// out, or ctx ended, whose error it then returns.
func (p *Pump) Run(ctx context.Context) (cut bool, err error) {
	readers, err := p.readers()
	if err != nil {
		return false, err
	}
	done := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() { p.watch(ctx, done, readers) })

	var g errgroup.Group
	for _, r := range readers {
		g.Go(r.run)
	}
	err = g.Wait()
	close(done)
	watcher.Wait()
	for _, r := range readers {
		cut = cut || r.cut
		r.file.Close()
	}
	if err == nil && cut && ctx.Err() != nil {
		err = ctx.Err()
	}
	return cut, err
}

func (p *Pump) readers() ([]*reader, error) {
	var rs []*reader
	for s, f := range []*os.File{p.cfg.Out, p.cfg.Err} {
		if f == nil {
			continue
		}
		r, err := newReader(p, job.Stream(s), f)
		if err != nil {
			return nil, err
		}
		rs = append(rs, r)
	}
	return rs, nil
}

// watch wakes the readers when the process has ended and when the pump is to stop.
func (p *Pump) watch(ctx context.Context, done <-chan struct{}, readers []*reader) {
	exited := p.cfg.Exited
	for {
		select {
		case <-done:
			return
		case <-exited:
			exited = nil
			p.mu.Lock()
			p.exited = p.exitTime()
		case <-ctx.Done():
			close(p.stop)
			p.mu.Lock()
			p.stopped = true
		}
		for _, r := range readers {
			r.file.SetReadDeadline(past)
			r.deadline = past
		}
		stopped := p.stopped
		p.mu.Unlock()
		if stopped {
			return
		}
	}
}

func (p *Pump) exitTime() time.Time {
	if p.cfg.ExitedAt == nil {
		return time.Now()
	}
	return p.cfg.ExitedAt()
}

func (p *Pump) emit(c Chunk) {
	if p.cfg.Tee != nil {
		p.cfg.Tee.Write(p.cfg.Rank, c.Stream, c.Data)
	}
	p.window.sent(len(c.Data))
	p.cfg.Emit(c)
}

// failure names the stream in an error that is more than the end of a read.
func (p *Pump) failure(s job.Stream, err error) error {
	if !isFailure(err) || err == io.EOF {
		return nil
	}
	return fmt.Errorf("rank %d: read %v: %w", p.cfg.Rank, s, err)
}
