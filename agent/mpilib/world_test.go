package mpilib

import (
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"testing"
	"testing/fstest"
)

// memoryFS is a tree whose processes have memory: what is at an address, by the file's name.
type memoryFS struct {
	fstest.MapFS
	memory map[string]map[int64][]byte
}

func (m memoryFS) Open(name string) (fs.File, error) {
	f, err := m.MapFS.Open(name)
	if parts, ok := m.memory[name]; ok && err == nil {
		return memoryFile{f, parts}, nil
	}
	return f, err
}

type memoryFile struct {
	fs.File
	parts map[int64][]byte
}

func (m memoryFile) ReadAt(b []byte, at int64) (int, error) {
	for begin, part := range m.parts {
		if at >= begin && at+int64(len(b)) <= begin+int64(len(part)) {
			return copy(b, part[at-begin:]), nil
		}
	}
	return 0, io.ErrUnexpectedEOF
}

// whoever is asked whether MPI_Init was called: by the name of the library's state, whatever else the process has, and in a child of a shell.
func TestInitialized(t *testing.T) {
	const base = 0x7f0000000000
	const line = "7f0000000000-7f0000010000 r--p 00000000 fe:00 6 /usr/lib/"
	library := func(symbol string) image {
		return image{soname: "lib", symbols: []string{"MPI_Init"}, texts: map[string]string{symbol: "\x00\x00\x00\x00"}}
	}
	for _, tt := range []struct {
		name, file, symbol string
		state              uint32
		changed            bool // the process is another program by now
		found, called      bool
	}{
		{"Open MPI, not yet", "libmpi.so.40.30.4", "ompi_mpi_state", 0, false, true, false},
		{"Open MPI, within MPI_Init", "libmpi.so.40.30.4", "ompi_mpi_state", 1, false, true, true},
		{"Open MPI, called", "libmpi.so.40.30.4", "ompi_mpi_state", 2, false, true, true},
		{"Open MPI, finalized", "libmpi.so.40.30.4", "ompi_mpi_state", 5, false, true, true},
		{"Open MPI, nonsense", "libmpi.so.40.30.4", "ompi_mpi_state", 77, false, true, false},
		{"MPICH, not yet", "libmpich.so.12", "MPIR_world_model_state", 0, false, true, false},
		{"MPICH, called", "libmpich.so.12", "MPIR_world_model_state", 1, false, true, true},
		{"MPICH, another program by now", "libmpich.so.12", "MPIR_world_model_state", 1, true, true, false},
		{"a library without a witness", "libmpich.so.12", "other", 1, false, false, false},
		{"no MPI", "libm.so.6", "ompi_mpi_state", 2, false, false, false},
	} {
		content := library(tt.symbol).bytes()
		o, err := Read(readerOf(content))
		if err != nil {
			t.Fatal(err)
		}
		address, ok := o.Defines(tt.symbol)
		if !ok {
			t.Fatal("the test's library lacks its symbol")
		}
		state := make([]byte, 4)
		binary.LittleEndian.PutUint32(state, tt.state)
		tree := memoryFS{fstest.MapFS{
			"usr/lib/" + tt.file:       {Data: content, Mode: 0o755},
			"proc/10/maps":             {Data: []byte("10000-20000 r--p 00000000 fe:00 6 /bin/sh\n")},
			"proc/10/task/10/children": {Data: []byte("11 ")},
			"proc/11/maps":             {Data: []byte("10000-20000 r--p 00000000 fe:00 6 /work/a.out\n" + line + tt.file + "\n")},
			"proc/11/mem":              {Data: []byte("x")},
		}, map[string]map[int64][]byte{"proc/11/mem": {base + int64(address): state}}}
		m := NewMemory(tree)
		w, found := m.World(10, false)
		if tt.changed {
			tree.MapFS["proc/11/maps"] = &fstest.MapFile{Data: []byte("10000-20000 r--p 00000000 fe:00 6 /bin/true\n")}
		}
		called, there := m.Initialized(w)
		if found != tt.found || called != tt.called || there != (tt.found && !tt.changed) || found && w.PID != 11 {
			t.Errorf("%s: found %v in %d, called %v, there %v", tt.name, found, w.PID, called, there)
		}
	}
}

// A process is what the rank runs where only shells and wrappers are between.
func TestOnlyWraps(t *testing.T) {
	process := func(name, parent string) map[string]*fstest.MapFile {
		return map[string]*fstest.MapFile{"exe": {Data: []byte(name), Mode: fs.ModeSymlink | 0o777}, "stat": {Data: []byte("1 (a b) c) S " + parent + " 1 1")}}
	}
	for _, tt := range []struct {
		chain []string // programs from the rank down
		want  bool
	}{
		{[]string{"/work/a.out"}, true},
		{[]string{"/usr/bin/dash", "/work/a.out"}, true},
		{[]string{"/usr/bin/bash", "/usr/bin/sudo", "/usr/bin/env", "/usr/bin/numactl", "/work/a.out"}, true},
		{[]string{"/usr/bin/python3.11", "/work/a.out"}, false},
		{[]string{"/usr/bin/bash", "/usr/bin/python3.11", "/work/a.out"}, false},
		{[]string{"/usr/bin/bash", "/usr/bin/mpirun.openmpi", "/work/a.out"}, false},
	} {
		tree := fstest.MapFS{}
		for i, program := range tt.chain {
			for name, f := range process(program, fmt.Sprint(9+i)) {
				tree[fmt.Sprintf("proc/%d/%s", 10+i, name)] = f
			}
		}
		m := NewMemory(tree)
		if got := m.OnlyWraps(10, 9+len(tt.chain)); got != tt.want {
			t.Errorf("%q: %v", tt.chain, got)
		}
		if m.OnlyWraps(12345, 9+len(tt.chain)) {
			t.Errorf("%q is below a process that is not there", tt.chain)
		}
	}
}

func TestEnvironmentOfAProcess(t *testing.T) {
	m := NewMemory(fstest.MapFS{"proc/10/environ": {Data: []byte("A=1\x00B=c=d\x00")}, "proc/11/environ": {}})
	if got := m.Environment(10); len(got) != 2 || got["B"] != "c=d" {
		t.Errorf("%q", got)
	}
	if got := m.Environment(11); got == nil || len(got) != 0 {
		t.Errorf("of none: %q", got)
	}
	if got := m.Environment(12); got != nil {
		t.Errorf("of a process that is gone: %q", got)
	}
}

// A symbol is found in the table for debuggers, too, and in no file that lies about it.
func TestLocalSymbols(t *testing.T) {
	names := []byte("\x00other\x00MPIR_world_model_state\x00")
	entry := func(name uint32, section uint16, value uint64) []byte {
		b := make([]byte, 24)
		binary.LittleEndian.PutUint32(b, name)
		binary.LittleEndian.PutUint16(b[6:], section)
		binary.LittleEndian.PutUint64(b[8:], value)
		return b
	}
	table := append(append(entry(0, 0, 0), entry(7, 0, 1)...), entry(7, 3, 0x4040)...)
	if at, ok := find(table, names, "MPIR_world_model_state"); !ok || at != 0x4040 {
		t.Errorf("%x, %v", at, ok)
	}
	if _, ok := find(entry(1<<31, 3, 1), names, "MPIR_world_model_state"); ok {
		t.Error("a name outside of the names")
	}
	if _, ok := find(entry(8, 3, 1), names, "PIR_world"); ok {
		t.Error("a part of a name")
	}
}

type readerOf []byte

func (r readerOf) ReadAt(b []byte, at int64) (int, error) {
	if at < 0 || at >= int64(len(r)) {
		return 0, io.EOF
	}
	if n := copy(b, r[at:]); n < len(b) {
		return n, io.EOF
	}
	return len(b), nil
}
