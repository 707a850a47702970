package streams

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mpiup/mpiup/internal/job"
)

// file makes a file of n bytes and says how it is to be copied.
func file(t *testing.T, dir, name string, n int) job.File {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(strings.Repeat(name[:1], n)), 0o640); err != nil {
		t.Fatal(err)
	}
	return job.File{From: path, Name: name}
}

func TestOpenSources(t *testing.T) {
	dir := t.TempDir()
	a, b := file(t, dir, "a", 3), file(t, dir, "b", 4)
	s, err := OpenFiles([]job.App{{}, {Program: &b, Files: []job.File{a, a}}, {Program: &a}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := s.Announced(); len(got) != 2 || got[0] != (Announced{Name: "b", Mode: 0o640, Size: 4}) || got[1].Name != "a" {
		t.Errorf("announced %v", got)
	}
	if s.Program(0) != 0 || s.Program(1) != 1 || s.Program(2) != 2 {
		t.Errorf("programs %v", s.programs)
	}
	for _, tt := range []struct {
		files []job.File
		says  string
	}{
		{[]job.File{{From: dir + "/none", Name: "none"}}, "/none: no such file"},
		{[]job.File{{From: dir, Name: "dir"}}, "no regular file"},
		{[]job.File{{From: "/dev/null", Name: "null"}}, "no regular file"},
		{[]job.File{a, {From: b.From, Name: "a"}}, "would both be a on the hosts"},
	} {
		s, err := OpenFiles([]job.App{{Files: tt.files}})
		s.Close()
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%v: %v, not %q", tt.files, err, tt.says)
		}
	}
}

// Every host gets every byte, nobody more than its window, and a host that is gone holds nobody up.
func TestCopier(t *testing.T) {
	dir := t.TempDir()
	const window = 4 << 20
	const size = window + copyChunk + 1
	s, err := OpenFiles([]job.App{{Files: []job.File{file(t, dir, "a", size), file(t, dir, "empty", 0), file(t, dir, "b", 5)}}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	synctest.Test(t, func(t *testing.T) {
		got := map[int]*strings.Builder{1: {}, 2: {}, 3: {}}
		c := NewCopier(s, []int{1, 2, 3}, window, func(h int, data []byte) { got[h].Write(data) })
		done := make(chan error, 1)
		go func() { done <- c.Run(t.Context()) }()
		lens := func(want ...int) {
			t.Helper()
			synctest.Wait()
			for h, n := range want {
				if got[h+1].Len() != n {
					t.Errorf("host %d has %d bytes, not %d", h+1, got[h+1].Len(), n)
				}
			}
		}
		lens(window, window, window)
		c.Grant(1, window)
		c.Grant(2, copyChunk)
		lens(window, window, window) // host 3 is slow
		c.Gone(3)
		lens(window+copyChunk, window+copyChunk, window)
		c.Grant(2, 6)
		c.Grant(9, 6) // no host of ours
		if err := <-done; err != nil {
			t.Error(err)
		}
		if want := strings.Repeat("a", size) + "bbbbb"; got[1].String() != want || got[2].String() != want {
			t.Errorf("%d and %d bytes, not %d", got[1].Len(), got[2].Len(), len(want))
		}
	})
}

func TestCopierEnds(t *testing.T) {
	dir := t.TempDir()
	f := file(t, dir, "a", 10)
	for _, tt := range []struct {
		name string
		do   func(c *Copier, cancel func())
		says string
	}{
		{"all hosts are gone", func(c *Copier, _ func()) { c.AllGone() }, ""},
		{"the run ends", func(_ *Copier, cancel func()) { cancel() }, ""},
		{"a file that has become shorter", func(c *Copier, _ func()) { os.Truncate(f.From, 5); c.Grant(0, 10) }, "shorter than its 10 bytes"},
	} {
		s, err := OpenFiles([]job.App{{Files: []job.File{f}}})
		if err != nil {
			t.Fatal(err)
		}
		c := NewCopier(s, []int{0}, 1<<20, func(int, []byte) {})
		c.Spend(1 << 20)
		ctx, cancel := context.WithCancel(t.Context())
		tt.do(c, cancel)
		if err := c.Run(ctx); (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", tt.name, err)
		}
		cancel()
		s.Close()
	}
}
