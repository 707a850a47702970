package watch

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/agent/look"
	"github.com/mpiup/mpiup/test/need"
)

// A pipe where a program or another library should be holds no rank's start up, and a program's own LD_PRELOAD stays before the library.
func TestEnvironment(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if m, _ := programOf(pipe); m != elf.EM_NONE {
		t.Errorf("a pipe is a program for %v", m)
	}
	library := standInLibrary(t)
	j, err := newJob(dir, 1, library)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	j.shared = filepath.Join(dir, "none", "page.")
	env, err := j.environment(7, pipe, []string{"A=1", "LD_PRELOAD=" + pipe})
	if want := "LD_PRELOAD=" + pipe + ":" + library; err != nil || !slices.Contains(env, want) || slices.Contains(env, "LD_PRELOAD="+pipe) {
		t.Errorf("%q, %v", env, err)
	}
	if _, err := j.environment(7, pipe, nil); err == nil {
		t.Error("a second page of one rank")
	}
	for want, give := range map[string][2]string{
		"no directory can be written to": {"", library},
		"put that of the mpiup image":    {dir, ""},
		"a space or a colon":             {dir, "/opt/a b.so"},
	} {
		if _, err := newJob(give[0], 1, give[1]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v", err)
		}
	}
	j.shared = filepath.Join(dir, "shared.")
	if env, err := j.environment(8, pipe, nil); err != nil || !slices.Contains(env, Variable+"="+j.shared+"8") {
		t.Errorf("%q, %v", env, err)
	}
	j.Close()
	if _, err := os.Stat(j.dir); err == nil {
		t.Error("the pages stay")
	}
	if _, err := os.Stat(j.shared + "8"); err == nil {
		t.Error("a page in memory stays")
	}
}

// standInLibrary is a file that the loader takes: this test's own.
func standInLibrary(t *testing.T) string {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return own
}

// A library that no rank could load is told of before any is started, with the file and what to do: the loader would say so in each rank, or
// end it (SIGBUS).
func TestLibraryThatCannotBeLoaded(t *testing.T) {
	dir := t.TempDir()
	whole, err := os.ReadFile(standInLibrary(t))
	if err != nil {
		t.Fatal(err)
	}
	put := func(name string, text []byte, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	other := slices.Clone(whole)
	binary.NativeEndian.PutUint16(other[18:], uint16(elf.EM_PPC64)) // e_machine
	for name, c := range map[string]struct{ path, want string }{
		"cut in half":       {put("half", whole[:len(whole)/2], 0o644), "was cut"},
		"cut to its head":   {put("head", whole[:200], 0o644), "was cut"},
		"empty":             {put("empty", nil, 0o644), "is no library, or was cut"},
		"a text":            {put("text", []byte("#!/bin/sh\n"), 0o755), "is no library"},
		"another processor": {put("other", other, 0o644), "is a library for EM_PPC64"},
		"not there":         {filepath.Join(dir, "none"), "let the ranks' user read it"},
		"a directory":       {dir, "let the ranks' user read it"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := newJob(dir, 1, c.path); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.path) {
				t.Errorf("it says %v", err)
			}
		})
	}
	if err := CheckLibrary(put("whole", whole, 0o755)); err != nil {
		t.Error(err)
	}
}

// A program without a loader has no library before it, and what it starts would be handed its name.
func TestStaticProgram(t *testing.T) {
	need.Program(t, "gcc", "gcc")
	program := filepath.Join(t.TempDir(), "static")
	cmd := exec.Command("gcc", "-static", "-o", program, "-x", "c", "-")
	cmd.Stdin = strings.NewReader("int main(void) { return 0; }\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	j, err := newJob(t.TempDir(), 1, standInLibrary(t))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if _, err := j.environment(1, program, nil); err == nil || !strings.Contains(err.Error(), "is linked statically") {
		t.Errorf("it says %v", err)
	}
}

// A page is that of the process which is in MPI for its rank: not of a program that ran there before, nor of one that the rank has started.
func TestPageOfAnother(t *testing.T) {
	dir := t.TempDir()
	j, err := newJob(dir, 1, standInLibrary(t))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	j.shared = filepath.Join(dir, "page.")
	if _, err := j.environment(3, "", nil); err != nil {
		t.Fatal(err)
	}
	page := sealed(t, os.Getpid(), 77)
	write(t, j.shared+"3", os.Getpid(), page)

	// In this order: who is not known, and who has ended, leaves it as it was.
	for _, tt := range []struct {
		main int
		want uint64
	}{{0, 77}, {os.Getpid(), 77}, {os.Getppid(), 0}, {0, 0}, {1 << 30, 0}, {os.Getpid(), 77}} {
		if got := j.look(map[uint32]look.Leader{3: {PID: os.Getpid(), Main: tt.main}}); len(got) != 1 || got[0].Seq != tt.want {
			t.Errorf("with process %d in MPI a look says %+v, want %d", tt.main, got, tt.want)
		}
		if got := j.Seen(3, tt.main, 0); got.Seq != tt.want {
			t.Errorf("with process %d in MPI the page says %d, want %d", tt.main, got.Seq, tt.want)
		}
	}
}

// sealed is a descriptor of a page in memory, of a process that is in MPI and has called so many collectives.
func sealed(t *testing.T, owner int, seq uint64) (fd int) {
	t.Helper()
	fd, err := unix.MemfdCreate("page", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	b := newPage()
	b.u32(12, uint32(owner))
	b.u64(64, seq)
	if _, err := unix.Pwrite(fd, b, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		t.Fatalf("Linux 5.1 or later has these seals: %v", err)
	}
	return fd
}

// write writes into a page's file who has the page, and its descriptor.
func write(t *testing.T, path string, owner, fd int) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 4)
	for at, n := range map[int64]int{12: owner, sealedAt: fd + 1} {
		binary.NativeEndian.PutUint32(b, uint32(n))
		if _, err := f.WriteAt(b, at); err != nil {
			t.Fatal(err)
		}
	}
}

// Whoever writes to the file of a rank's page makes nothing up about the rank: neither there, nor by memory of its own, which is none of the rank's, nor by
// memory that others may write to, nor by what is none. What the rank's own process has sealed nobody can open for writing.
func TestPageThatAnotherRankWrites(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "page")
	own, parent := func(owner int) int { return owner }, func(int) int { return 0 }
	pipe := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	open := func(name string, flags int) int {
		fd, err := unix.Open(name, flags|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, newPage(), 0o600); err != nil {
		t.Fatal(err)
	}
	loose, err := unix.MemfdCreate("loose", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(loose) })
	if _, err := unix.Pwrite(loose, newPage(), 0); err != nil {
		t.Fatal(err)
	}
	page := sealed(t, os.Getpid(), 77)
	for _, c := range []struct {
		name string
		fd   int
		of   func(int) int
		want uint64
	}{
		{"into the file alone", -1, own, 0},
		{"of another rank's process", page, parent, 0},
		{"that is not sealed", loose, own, 0},
		{"that is a file", open(file, unix.O_RDWR), own, 0},
		{"that is a pipe", open(pipe, unix.O_RDWR), own, 0},
		{"that is a device", open("/dev/zero", unix.O_RDONLY), own, 0},
		{"that is not open", 1 << 20, own, 0},
		{"of the rank's own", page, own, 77},
	} {
		p, err := Create(path)
		if err != nil {
			t.Fatal(err)
		}
		b := newPage() // with all that a rank would say
		b.u64(64, 5)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		write(t, path, os.Getpid(), c.fd)
		p.Claim(c.of)
		if s, err := p.Read(&Copies{}); err != nil || s.Seq != c.want {
			t.Errorf("%s: it says %d collectives, want %d, %v", c.name, s.Seq, c.want, err)
		}
		p.Close()
		os.Remove(path)
	}
	again := open("/proc/self/fd/"+strconv.Itoa(page), unix.O_RDWR)
	if _, err := unix.Pwrite(again, []byte("x"), 0); err == nil {
		t.Error("what is sealed is written to")
	}
	if _, err := unix.Mmap(again, 0, pageBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
		t.Error("what is sealed is mapped for writing")
	}
}
