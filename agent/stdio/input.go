package stdio

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
)

// InputConfig says where a rank's standard input goes.
type InputConfig struct {
	Rank int

	// File is the write end of the rank's stdin, or its terminal's master. Non-blocking. Run
	// closes a pipe; a terminal belongs to the Pump.
	File     *os.File
	Terminal bool

	// Limit is how many bytes may wait here: the launcher's window. Default 64 KiB.
	Limit int

	// Done gives n bytes of window back: the pipe took them, or nobody will. It is called from
	// Run and from Write, and must not block.
	Done func(n int)

	// Exited is closed when the process has ended.
	Exited <-chan struct{}
}

// DefaultInputLimit is the window of standard input towards one rank, in bytes.
const DefaultInputLimit = 64 << 10

// ErrOverrun: the launcher sent more standard input than it had window for.
var ErrOverrun = errors.New("more standard input than the window allows")

// Input writes to a rank's standard input.
//
//	open ──CloseWrite──▶ closing ──queue empty──▶ ended
//	  └──── rank closed its stdin, or has exited ───▲     ended: what comes is given back at once
type Input struct {
	cfg  InputConfig
	wake chan struct{}

	mu      sync.Mutex
	queue   [][]byte // guarded by mu
	waiting int      // bytes in queue and being written, guarded by mu
	eof     bool     // no more will come, guarded by mu
	ended   bool     // nobody reads any more, guarded by mu
}

// NewInput returns an Input that Run serves.
func NewInput(cfg InputConfig) *Input {
	cfg.Limit = cmp.Or(cfg.Limit, DefaultInputLimit)
	return &Input{cfg: cfg, wake: make(chan struct{}, 1)}
}

// Write queues data, which the Input then owns. It does not block. What comes after the end
// (the rank closed its stdin, or has exited) is given back by Done and forgotten.
func (in *Input) Write(data []byte) error {
	in.mu.Lock()
	switch {
	case in.ended || in.eof:
		in.mu.Unlock()
		in.done(len(data))
		return nil
	case in.waiting+len(data) > in.cfg.Limit:
		waiting := in.waiting
		in.mu.Unlock()
		return fmt.Errorf("rank %d: %d bytes on top of %d: %w", in.cfg.Rank, len(data), waiting, ErrOverrun)
	}
	in.queue = append(in.queue, data)
	in.waiting += len(data)
	in.mu.Unlock()
	poke(in.wake)
	return nil
}

// CloseWrite is the end of the launcher's input: after what is queued the rank reads EOF.
func (in *Input) CloseWrite() {
	in.mu.Lock()
	in.eof = true
	in.mu.Unlock()
	poke(in.wake)
}

// Run writes until the end of the input, or until the process has ended or closed its stdin.
// It returns an error only for a write that failed in another way; the input has ended then.
func (in *Input) Run(ctx context.Context) error {
	stop := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() {
		select {
		case <-stop:
			return
		case <-ctx.Done():
		case <-in.cfg.Exited:
		}
		in.end()
		in.cfg.File.SetWriteDeadline(time.Unix(1, 0))
	})
	err := in.write()
	in.end()
	close(stop)
	watcher.Wait()
	if !in.cfg.Terminal {
		in.cfg.File.Close()
	}
	if err != nil && !gone(err) {
		return fmt.Errorf("rank %d: write stdin: %w", in.cfg.Rank, err)
	}
	return nil
}

// gone says that a write failed because nobody reads.
func gone(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.EIO) ||
		errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, os.ErrClosed)
}

func (in *Input) write() error {
	last := byte('\n')
	for {
		batch, eof, ended := in.next()
		if ended {
			return nil
		}
		for i, b := range batch {
			_, err := in.cfg.File.Write(b)
			if err != nil {
				in.took(size(batch[i:]))
				return err
			}
			if len(b) > 0 {
				last = b[len(b)-1]
			}
			in.took(len(b))
		}
		switch {
		case len(batch) > 0:
		case eof && in.cfg.Terminal:
			return in.endOfTransmission(last)
		case eof:
			return nil
		default:
			<-in.wake
		}
	}
}

// endOfTransmission says EOF to a terminal in canonical mode. There ^D passes the line on as it is; only at the start
// of a line does it read as EOF.
func (in *Input) endOfTransmission(last byte) error {
	const eot = 4 // VEOF of a new terminal
	b := []byte{eot, eot}
	if last == '\n' || last == '\r' {
		b = b[:1]
	}
	_, err := in.cfg.File.Write(b)
	return err
}

func (in *Input) next() (batch [][]byte, eof, ended bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	batch, in.queue = in.queue, nil
	if in.ended {
		in.queue = batch
		batch = nil
	}
	return batch, in.eof, in.ended
}

// took gives bytes back that had been counted as waiting.
func (in *Input) took(n int) {
	in.mu.Lock()
	in.waiting -= n
	in.mu.Unlock()
	in.done(n)
}

// end forgets what is queued and makes Write forget the rest.
func (in *Input) end() {
	in.mu.Lock()
	in.ended = true
	n := size(in.queue)
	in.queue = nil
	in.mu.Unlock()
	in.took(n)
	poke(in.wake)
}

func (in *Input) done(n int) {
	if n > 0 && in.cfg.Done != nil {
		in.cfg.Done(n)
	}
}

// poke says that there is something to do, without waiting for who does it.
func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func size(bs [][]byte) int {
	n := 0
	for _, b := range bs {
		n += len(b)
	}
	return n
}
