package streams

import (
	"context"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/mpiup/mpiup/internal/job"
)

// Files go from this host to all hosts of a job before its ranks start.
//
//	files ─OpenFiles─▶ Files ─Announced─▶ Launch.files       Copier.Run reads each piece once and sends it to every host,
//	                                                      as fast as the slowest grants window (CopyCredit)
//
// Concurrency: Run blocks until all is sent or no host is left; Grant and Gone may be called meanwhile by any goroutine. Whoever
// opens Files closes them.
//
// The package does not know where files end up: that is the agents' (agent/incoming).

// copyChunk is what one frame carries of a file.
const copyChunk = 256 << 10

// copied is a file that hosts get before their ranks start.
type copied struct {
	job.File
	file *os.File
	size int64
	mode os.FileMode
}

// Files are the files of all programs, each once.
type Files struct {
	list     []*copied
	programs []uint32 // by app: 1 + index in list of the program itself; 0: hosts have it
}

// OpenFiles opens the files that the programs want copied. What it returns beside an error is to be
// closed too.
func OpenFiles(apps []job.App) (*Files, error) {
	s := &Files{programs: make([]uint32, len(apps))}
	at := map[string]int{}
	add := func(f job.File) (int, error) {
		i, again := at[f.Name]
		if again && s.list[i].From != f.From {
			return 0, fmt.Errorf("%s and %s would both be %s on the hosts: give one of them another name", s.list[i].From, f.From, f.Name)
		}
		if again {
			return i, nil
		}
		src, err := openCopied(f)
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

func openCopied(f job.File) (*copied, error) {
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
	return &copied{File: f, file: file, size: fi.Size(), mode: fi.Mode()}, nil
}

// Program is 1 + the index of app i's own program, 0 if hosts have it.
func (s *Files) Program(i int) uint32 {
	if i < len(s.programs) {
		return s.programs[i]
	}
	return 0
}

// Close closes the files.
func (s *Files) Close() {
	for _, f := range s.list {
		f.file.Close()
	}
}

// Len is how many files there are.
func (s *Files) Len() int { return len(s.list) }

// Announced is a file as hosts are told of it.
type Announced struct {
	Name string
	Mode os.FileMode // permissions alone
	Size int64
}

// Announced are the files, in the order in which they are sent.
func (s *Files) Announced() []Announced {
	files := make([]Announced, len(s.list))
	for i, f := range s.list {
		files[i] = Announced{f.Name, f.mode.Perm(), f.size}
	}
	return files
}

// Copier sends files to hosts, each piece to all of them. A host that is Gone is waited for no longer.
type Copier struct {
	*Pace
	sources *Files
	send    func(host int, data []byte)
}

// NewCopier sends to hosts, by index, with send; window is how many bytes may be under way to one.
func NewCopier(s *Files, hosts []int, window int, send func(int, []byte)) *Copier {
	return &Copier{NewPace(hosts, window), s, send}
}

// Run sends all files. An error is a file's.
func (c *Copier) Run(ctx context.Context) error {
	for _, f := range c.sources.list {
		for at := int64(0); at < f.size; {
			n := int(min(f.size-at, copyChunk))
			if !c.await(ctx, n) {
				return nil
			}
			data := make([]byte, n) // the frames' own, until every host has acknowledged
			if _, err := io.ReadFull(f.file, data); err != nil {
				return fmt.Errorf("%s has become shorter than its %d bytes, or cannot be read: %w", f.From, f.size, err)
			}
			for _, h := range c.Spend(n) {
				c.send(h, data)
			}
			at += int64(n)
		}
	}
	return nil
}

// await waits until every host has place for n bytes. left: there is a host, and time.
func (c *Copier) await(ctx context.Context, n int) (left bool) {
	for {
		switch room, left := c.Room(n); {
		case !left:
			return false
		case room == n:
			return true
		}
		select {
		case <-c.Changed():
		case <-ctx.Done():
			return false
		}
	}
}
