package watch

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/agent/look"
)

// A pipe where a program or another library should be holds no rank's start up, and a program's own LD_PRELOAD stays before the library.
func TestEnvironment(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if m := machineOf(pipe); m != elf.EM_NONE {
		t.Errorf("a pipe is a program for %v", m)
	}
	j, err := newJob(dir, 1, "/opt/mpiup/"+LibraryName)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	j.shared = filepath.Join(dir, "none", "page.")
	env, err := j.environment(7, pipe, []string{"A=1", "LD_PRELOAD=" + pipe})
	if want := "LD_PRELOAD=" + pipe + ":/opt/mpiup/" + LibraryName; err != nil || !slices.Contains(env, want) || slices.Contains(env, "LD_PRELOAD="+pipe) {
		t.Errorf("%q, %v", env, err)
	}
	if _, err := j.environment(7, pipe, nil); err == nil {
		t.Error("a second page of one rank")
	}
	for want, give := range map[string][2]string{
		"no directory can be written to": {"", "/opt/x.so"},
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

// A page is that of the process which is in MPI for its rank: not of a program that ran there before, nor of one that the rank has started.
func TestPageOfAnother(t *testing.T) {
	dir := t.TempDir()
	j, err := newJob(dir, 1, "/opt/mpiup/"+LibraryName)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	j.shared = filepath.Join(dir, "page.")
	if _, err := j.environment(3, "", nil); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 8)
	binary.NativeEndian.PutUint32(b, uint32(os.Getppid())) // the page's owner, and that it is in MPI
	binary.NativeEndian.PutUint32(b[4:], stateInitialized)
	page, err := os.OpenFile(j.shared+"3", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer page.Close()
	if _, err := page.WriteAt(b, 12); err != nil {
		t.Fatal(err)
	}
	binary.NativeEndian.PutUint64(b, 77) // collectives
	if _, err := page.WriteAt(b, 64); err != nil {
		t.Fatal(err)
	}

	// In this order: who is not known, and who has ended, leaves it as it was.
	for _, tt := range []struct {
		main int
		want uint64
	}{{0, 77}, {os.Getppid(), 77}, {os.Getpid(), 0}, {0, 0}, {1 << 30, 0}, {os.Getppid(), 77}} {
		if got := j.Seen(3, tt.main, 0); got.Seq != tt.want {
			t.Errorf("with process %d in MPI the page says %d, want %d", tt.main, got.Seq, tt.want)
		}
		if got := j.look(map[uint32]look.Leader{3: {Main: tt.main}}); len(got) != 1 || got[0].Seq != tt.want {
			t.Errorf("with process %d in MPI a look says %+v, want %d", tt.main, got, tt.want)
		}
	}
}
