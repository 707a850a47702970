// Package copies sends files from this host to all hosts of a job before its ranks start.
//
//	files ─Open─▶ Sources ─Announced─▶ Launch.files       Copier.Run reads each piece once and sends it to every host,
//	                                                      as fast as the slowest grants window (CopyCredit)
//
// Concurrency: Run blocks until all is sent or no host is left; Grant and Gone may be called meanwhile by any goroutine. Whoever
// opens Sources closes them.
//
// The package does not know where files end up: that is the agents' (agent/copies).
package copies

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/mpiup/mpiup/internal/job"
)

// copyChunk is what one frame carries of a file.
const copyChunk = 256 << 10

// source is a file that hosts get before their ranks start.
type source struct {
	job.File
	file *os.File
	size int64
	mode os.FileMode
}

// Sources are the files of all programs, each once.
type Sources struct {
	list     []*source
	programs []uint32 // by app: 1 + index in list of the program itself; 0: hosts have it
}

// Open opens the files that the programs want copied. What it returns beside an error is to be
// closed too.
func Open(apps []job.App) (*Sources, error) {
	s := &Sources{programs: make([]uint32, len(apps))}
	at := map[string]int{}
	add := func(f job.File) (int, error) {
		i, again := at[f.Name]
		if again && s.list[i].From != f.From {
			return 0, fmt.Errorf("%s and %s would both be %s on the hosts: give one of them another name", s.list[i].From, f.From, f.Name)
		}
		if again {
			return i, nil
		}
		src, err := openSource(f)
		if err != nil {
			return 0, err
		}
		at[f.Name] = len(s.list)
		s.list = append(s.list, src)
		return at[f.Name], nil
	}
	for i, a := range apps {
		if a.Program != nil {
			n, err := add(*a.Program)
			if err != nil {
				return s, err
			}
			s.programs[i] = uint32(n) + 1
		}
		for _, f := range a.Files {
			if _, err := add(f); err != nil {
				return s, err
			}
		}
	}
	return s, nil
}

func openSource(f job.File) (*source, error) {
	file, err := os.OpenFile(f.From, os.O_RDONLY|syscall.O_NONBLOCK, 0) // which a pipe without a writer does not hold up
	if err != nil {
		return nil, fmt.Errorf("file to copy: %w", err)
	}
	fi, err := file.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("file to copy: %s is no regular file; a directory's files are named one by one, or packed with tar", f.From)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return &source{File: f, file: file, size: fi.Size(), mode: fi.Mode()}, nil
}

// Program is 1 + the index of app i's own program, 0 if hosts have it.
func (s *Sources) Program(i int) uint32 {
	if i < len(s.programs) {
		return s.programs[i]
	}
	return 0
}

// Close closes the files.
func (s *Sources) Close() {
	for _, f := range s.list {
		f.file.Close()
	}
}

// Len is how many files there are.
func (s *Sources) Len() int { return len(s.list) }

// Announced is a file as hosts are told of it.
type Announced struct {
	Name string
	Mode os.FileMode // permissions alone
	Size int64
}

// Announced are the files, in the order in which they are sent.
func (s *Sources) Announced() []Announced {
	files := make([]Announced, len(s.list))
	for i, f := range s.list {
		files[i] = Announced{f.Name, f.mode.Perm(), f.size}
	}
	return files
}

// Copier sends files to hosts: each piece is read once and goes to all of them, as fast as the
// slowest takes it. A host that is gone is waited for no longer.
type Copier struct {
	sources *Sources
	window  int // bytes that may be under way to one host
	send    func(host int, data []byte)
	wake    chan struct{} // capacity 1: window or hosts have changed

	mu   sync.Mutex
	free map[int]int // window by host that is left, guarded by mu
}

// New sends to hosts, by index, with send.
func New(s *Sources, hosts []int, window int, send func(int, []byte)) *Copier {
	c := &Copier{sources: s, window: window, send: send, wake: make(chan struct{}, 1), free: map[int]int{}}
	for _, h := range hosts {
		c.free[h] = window
	}
	return c
}

// Grant gives back n bytes of a host's window. c may be nil.
func (c *Copier) Grant(host, n int) {
	if c == nil {
		return
	}
	c.mu.Lock()
	if free, ok := c.free[host]; ok {
		c.free[host] = min(free+n, c.window)
	}
	c.mu.Unlock()
	c.nudge()
}

// Gone takes hosts out; without any, all are. c may be nil.
func (c *Copier) Gone(hosts ...int) {
	if c == nil {
		return
	}
	c.mu.Lock()
	for _, h := range hosts {
		delete(c.free, h)
	}
	if len(hosts) == 0 {
		clear(c.free)
	}
	c.mu.Unlock()
	c.nudge()
}

func (c *Copier) nudge() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// take reserves n bytes at every host that is left and returns those; none when one of them has no
// place for it. left is false when there are no hosts.
func (c *Copier) take(n int) (hosts []int, left bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, free := range c.free {
		if free < n {
			return nil, true
		}
	}
	for h := range c.free {
		c.free[h] -= n
		hosts = append(hosts, h)
	}
	return hosts, len(hosts) > 0
}

// Run sends all files. An error is a file's.
func (c *Copier) Run(ctx context.Context) error {
	for _, f := range c.sources.list {
		for at := int64(0); at < f.size; {
			n := int(min(f.size-at, copyChunk))
			hosts, err := c.await(ctx, n)
			if err != nil || len(hosts) == 0 {
				return err
			}
			data := make([]byte, n) // the frames' own, until every host has acknowledged
			if _, err := io.ReadFull(f.file, data); err != nil {
				return fmt.Errorf("%s has become shorter than its %d bytes, or cannot be read: %w", f.From, f.size, err)
			}
			for _, h := range hosts {
				c.send(h, data)
			}
			at += int64(n)
		}
	}
	return nil
}

// await waits until every host has place for n bytes. No host: there is none left.
func (c *Copier) await(ctx context.Context, n int) ([]int, error) {
	for {
		if hosts, left := c.take(n); len(hosts) > 0 || !left {
			return hosts, nil
		}
		select {
		case <-c.wake:
		case <-ctx.Done():
			return nil, nil
		}
	}
}
