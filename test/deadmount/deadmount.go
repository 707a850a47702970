// Package deadmount makes a directory on a file system that does not answer, like that of a dead NFS server: a FUSE mount
// that nobody serves. Who asks it for anything hangs until the test ends. It needs root and /dev/fuse.
package deadmount

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/test/need"
)

// New is the directory. It is unmounted when the test ends, and who waits gets an error then.
func New(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	Over(t, dir)
	return dir
}

// Over makes a directory one that does not answer, as New's is.
func Over(t testing.TB, dir string) {
	t.Helper()
	need.Root(t)
	dev, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	need.Done(t, "fuse", err, "load the fuse module")
	if err := unix.Mount("none", dir, "fuse", unix.MS_NODEV|unix.MS_NOSUID, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", dev)); err != nil {
		_ = unix.Close(dev)
		t.Fatalf("mount: %v", err)
	}
	t.Cleanup(func() {
		_ = unix.Close(dev)
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("umount: %v", err)
		}
	})
}
