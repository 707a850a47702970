package mpilib

import (
	"fmt"
	"io/fs"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"
)

// counted counts what is opened.
type counted struct {
	fstest.MapFS
	opens atomic.Int32
}

func (c *counted) Open(name string) (fs.File, error) {
	c.opens.Add(1)
	return c.MapFS.Open(name)
}

func (c *counted) Stat(name string) (fs.FileInfo, error) { return c.MapFS.Stat(name) }

func TestMemory(t *testing.T) {
	c := &counted{MapFS: both.with(tree{"work/run.sh": "#!/bin/sh\n$RUN\n"}).fs()}
	m := NewMemory(c)
	look := func(env ...string) Choice {
		return m.Look(Query{Argv: []string{"./run.sh"}, Env: append(env, "PATH=/bin"), Dir: "/work"})
	}
	first := look("RUN=./ompi")
	if first.Library != ompi4Name {
		t.Fatalf("found %+v", first)
	}
	opened := c.opens.Load()
	if again := look("RUN=./ompi", "OTHER=1"); again != first || c.opens.Load() != opened {
		t.Errorf("the same again: %+v after %d more files", again, c.opens.Load()-opened)
	}
	if other := look("RUN=./mpich"); other.Library != mpich4Name {
		t.Errorf("with another variable: %+v", other)
	}
	look("RUN=./ompi")
	c.MapFS["work/ompi"] = &fstest.MapFile{Data: program("libmpich.so.12").bytes(), Mode: 0o755, ModTime: time.Unix(1, 0)}
	if other := look("RUN=./ompi"); other.Library != mpich4Name {
		t.Errorf("with another program: %+v", other)
	}
	c.MapFS["bin/sh"] = &fstest.MapFile{Data: []byte("nothing"), Mode: 0o644}
	if other := look("RUN=./ompi"); other.Library != "" {
		t.Errorf("without a shell: %+v", other)
	}
	for i := range 2 * maxRemember {
		m.Look(Query{Argv: []string{"x", string(rune('a' + i))}})
	}
	if len(m.choices) > maxRemember {
		t.Errorf("%d choices are remembered", len(m.choices))
	}
	if none := m.Look(Query{}); none.Protocol != PMI1 {
		t.Errorf("nothing: %+v", none)
	}
}

// stuck is a file system that does not answer until it is let go.
type stuck struct{ until chan struct{} }

func (s stuck) Open(string) (fs.File, error) { <-s.until; return nil, fs.ErrNotExist }

func TestNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stuck{make(chan struct{})}
		m := NewMemory(s)
		begin := time.Now()
		c := m.Look(Query{Argv: []string{"./a.out"}, Dir: "/work"})
		if c.Protocol != PMI1 || c.Why != "the file system of ./a.out or its libraries did not answer within 2s" || time.Since(begin) != lookDeadline {
			t.Errorf("%+v after %v", c, time.Since(begin))
		}
		if l := m.Mapped(1); l != "" {
			t.Errorf("mapped %q", l)
		}
		close(s.until)
	})
}

// A wrapper of many wrappers, and a script of many programs, end.
func TestBounds(t *testing.T) {
	argv := []string{}
	for range 500 {
		argv = append(argv, "env", "numactl")
	}
	text := "#!/bin/sh\n"
	for range 2000 {
		text += "./plain; . ./run.sh; eval 'eval ./run.sh'\n"
	}
	files := both.with(tree{"work/run.sh": text}).fs()
	for _, argv := range [][]string{argv, {"./run.sh"}, {"sh", "-c", text}} {
		if c := NewMemory(files).Look(Query{Argv: argv, Env: []string{"PATH=/bin:/usr/bin"}, Dir: "/work"}); c.Library != "" {
			t.Errorf("found %+v", c)
		}
	}
}

// What a process started is looked at while it is new, and again when it is twice as old; a child of a child, too.
func TestMappedByNew(t *testing.T) {
	const none = "7f0-7f1 r--p 00000000 fe:00 13 /usr/bin/python3.11\n"
	const mpi = none + "7f31c0a00000-7f31c0b2a000 r-xp 0005f000 fe:00 1311 /usr/lib/libmpi.so.40\n"
	before := Children{}
	for i, look := range []struct {
		children, grandchildren, of8, of9 string
		want                              string
		now                               Children
	}{
		{"", "", none, none, "", Children{}},
		{"8 ", "", none, none, "", Children{8: 1}},
		{"8 ", "9", none, mpi, ompi4Name, Children{8: 2, 9: 1}},
		{"8 ", "", mpi, none, ompi4Name, Children{8: 3}},
		{"8 ", "", mpi, none, "", Children{8: 4}}, // not looked at
		{"8 ", "", mpi, none, ompi4Name, Children{8: 5}},
		{"", "", none, none, "", Children{}},
		{"8 ", "", mpi, none, ompi4Name, Children{8: 1}}, // another one of that number
	} {
		files := both.with(tree{"proc/7/maps": mpi, "proc/7/task/7/children": look.children, "proc/8/task/8/children": look.grandchildren,
			"proc/8/maps": look.of8, "proc/9/maps": look.of9}).fs()
		got, now := NewMemory(files).MappedByNew(7, before)
		if got != look.want || fmt.Sprint(now) != fmt.Sprint(look.now) {
			t.Errorf("look %d: %q, %v; want %q, %v", i, got, now, look.want, look.now)
		}
		before = now
	}
}

func TestMapped(t *testing.T) {
	const maps = "7f0-7f1 r--p 00000000 fe:00 13 /usr/bin/python3.11\n7f1-7f2 rw-p 00000000 00:00 0 [heap]\n"
	files := both.with(tree{"proc/7/maps": maps, "proc/7/task/7/children": "8 9 ", "proc/8/maps": maps,
		"proc/9/maps":                  maps + "7f31c0a00000-7f31c0b2a000 r-xp 0005f000 fe:00 1311 /usr/lib/libmpi.so.40\n",
		"proc/10/maps":                 "7f3-7f4 r-xp 0005f000 fe:00 1311 /gone/libmpi.so.12 (deleted)\n",
		"proc/11/maps":                 "7f3-7f4 r-xp 0005f000 fe:00 1311 /in/libmpi.so.12\n",
		"proc/11/root/in/libmpi.so.12": mpich5,
		"proc/12/task/12/children":     "12"}).fs()
	for pid, want := range map[int]string{7: ompi4Name, 8: "", 9: ompi4Name, 10: "MPICH (/gone/libmpi.so.12)",
		11: "MPICH 5.0.2 (/in/libmpi.so.12)", 12: "", 99: ""} {
		if got := NewMemory(files).Mapped(pid); got != want {
			t.Errorf("process %d: %q, not %q", pid, got, want)
		}
	}
}
