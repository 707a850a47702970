package leftover

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/test/need"
)

// shm is a directory in memory, as /dev/shm is one: leases are the file system's affair.
func shm(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(Shm, "mpiup-test-")
	need.Done(t, "shm", err, "mount a tmpfs at "+Shm)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestSegmentsThatNobodyUsesGo(t *testing.T) {
	dir := shm(t)
	file := func(name string) *os.File {
		t.Helper()
		f, err := os.Create(filepath.Join(dir, name))
		if err == nil {
			err = f.Truncate(4096)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	dead := []string{"vader_segment.w0.0.e9ad7712.0", "mpich_shm_30333118_0", "sm_segment.w0.0.1a2b.3", "mpich_shar_tmpoMPyHs", "Intel_MPI_87myzV", "nccl-Ab12Cd"}
	for _, name := range append([]string{"psm_1234", "torch_77_1_0", "my_segment"}, dead...) {
		file(name).Close()
	}
	open := file("vader_segment.w0.0.open.0")
	mapped := file("mpich_shar_tmpmapped")
	memory, err := unix.Mmap(int(mapped.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	mapped.Close()
	reader := file("nccl-reader")
	reader.Close()
	if reader, err = os.Open(reader.Name()); err != nil {
		t.Fatal(err)
	}
	file("sm_segment.two").Close()
	for _, err := range []error{
		os.Link(filepath.Join(dir, "sm_segment.two"), filepath.Join(dir, "another name")),
		os.Symlink("/etc/passwd", filepath.Join(dir, "sm_segment.link")),
		os.Mkdir(filepath.Join(dir, "sm_segment.dir"), 0o700),
		unix.Mkfifo(filepath.Join(dir, "sm_segment.fifo"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}

	if gone, err := Segments(dir, os.Geteuid()+1); err != nil || len(gone) > 0 {
		t.Errorf("of another user's: %q, %v", gone, err)
	}
	gone, err := Segments(dir, os.Geteuid())
	slices.Sort(gone)
	slices.Sort(dead)
	if err != nil || !slices.Equal(gone, dead) {
		t.Errorf("removed %q, %v; want %q", gone, err, dead)
	}
	left := func() (names []string) {
		all, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			names = append(names, e.Name())
		}
		return names
	}
	want := []string{"another name", "mpich_shar_tmpmapped", "my_segment", "nccl-reader", "psm_1234", "sm_segment.dir", "sm_segment.fifo",
		"sm_segment.link", "sm_segment.two", "torch_77_1_0", "vader_segment.w0.0.open.0"}
	if got := left(); !slices.Equal(got, want) {
		t.Errorf("left are %q, want %q", got, want)
	}

	open.Close()
	reader.Close()
	if err := unix.Munmap(memory); err != nil {
		t.Fatal(err)
	}
	if gone, err := Segments(dir, os.Geteuid()); err != nil || len(gone) != 3 {
		t.Errorf("once they are let go: %q, %v", gone, err)
	}
}

func TestSegmentsOfNoDirectory(t *testing.T) {
	if _, err := Segments(filepath.Join(t.TempDir(), "none"), 0); !os.IsNotExist(err) {
		t.Error(err)
	}
}
