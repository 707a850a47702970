package leftover

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Shm is where libraries put shared memory by name.
const Shm = "/dev/shm"

// segmentNames begin the names of shared memory whose makers hold it open or mapped for as long as anybody may need it.
var segmentNames = []string{
	"vader_segment.", // Open MPI to 4.1: opal/mca/btl/vader/btl_vader_component.c
	"sm_segment.",    // Open MPI from 5.0: opal/mca/btl/sm/btl_sm_component.c
	"osc_rdma.",      // Open MPI's windows: ompi/mca/osc/rdma/osc_rdma_component.c
	"mpich_shm_",     // MPICH 5.0.2, by shm_open
	"mpich_shar_tmp", // MPICH and its kin: src/mpl/src/shm/mpl_shm_mmap.c
	"Intel_MPI_",     // Intel MPI, which is made of MPICH
	"ucx_shm_posix_", // UCX: src/uct/sm/mm/posix/mm_posix.c
	"nccl-",          // NCCL: src/misc/shmutils.cc
	claimed,          // our own, see Claim
}

// maxLooked bounds how many names of a directory are looked at.
const maxLooked = 64 << 10

// maxRoom bounds the same for one directory of Claim's.
const maxRoom = 4096

// Segments removes shared memory of MPI libraries from dir which nobody uses any more, and returns the names. Its makers
// were killed before they could do so, or the room was full.
//
// A file goes if it has such a name, is owner's, has no other name, and the kernel grants a write lease on it: that it
// does only where nobody has the file open or mapped, in whatever container (fcntl(2), F_SETLEASE). So what a living job
// uses stays, though another container shares the directory. Where there are no leases (gVisor) everything stays. The
// lease is held until the name is gone: whoever opens the file meanwhile waits. The same holds in directories that Claim
// made, which go when they are empty.
func Segments(dir string, owner int) (removed []string, err error) {
	d, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0) // as bounded.OpenDir, which a guard would initialise with all that it imports
	if err != nil {
		return nil, err
	}
	defer d.Close()
	var errs []error
	for looked := 0; looked < maxLooked; {
		names, err := d.Readdirnames(256)
		looked += len(names)
		for _, name := range names {
			gone, err := segment(int(d.Fd()), name, owner)
			if gone {
				removed = append(removed, name)
			}
			for _, inner := range room(int(d.Fd()), name, owner) {
				removed = append(removed, filepath.Join(name, inner))
			}
			if err != nil && len(errs) < 4 {
				errs = append(errs, fmt.Errorf("%s: %w", filepath.Join(dir, name), err))
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return removed, err
		}
	}
	return removed, errors.Join(errs...)
}

// room removes what nobody uses of a directory that Claim made, and it where nothing is left.
func room(dir int, name string, owner int) (removed []string) {
	if !strings.HasPrefix(name, claimed) {
		return nil
	}
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil // a file, or it is gone
	}
	d := os.NewFile(uintptr(fd), name)
	defer d.Close()
	var opened unix.Stat_t
	if unix.Fstat(fd, &opened) != nil || int64(opened.Uid) != int64(owner) {
		return nil
	}
	names, err := d.Readdirnames(maxRoom)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil
	}
	for _, inner := range names {
		if gone, err := segment(fd, inner, owner); gone && err == nil {
			removed = append(removed, inner)
		}
	}
	_ = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR) // where something is in use, it stays
	return removed
}

// segment removes one file if it is dead shared memory; false: it is something else, in use, or gone already.
func segment(dir int, name string, owner int) (bool, error) {
	if !isSegment(name) {
		return false, nil
	}
	var named, opened unix.Stat_t
	if unix.Fstatat(dir, name, &named, unix.AT_SYMLINK_NOFOLLOW) != nil || !ours(named, owner) { // so that no device is opened
		return false, nil
	}
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, nil // it is gone, or somebody else has a lease on it
	}
	defer func() { _ = unix.Close(fd) }()
	if unix.Fstat(fd, &opened) != nil || !ours(opened, owner) {
		return false, nil
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		return false, nil
	}
	if unix.Fstatat(dir, name, &named, unix.AT_SYMLINK_NOFOLLOW) != nil || named.Dev != opened.Dev || named.Ino != opened.Ino {
		return false, nil
	}
	if err := unix.Unlinkat(dir, name, 0); err != nil {
		return false, err
	}
	return true, nil
}

func isSegment(name string) bool {
	for _, begin := range segmentNames {
		if strings.HasPrefix(name, begin) {
			return true
		}
	}
	return false
}

// ours says that a file may be shared memory of owner's.
func ours(st unix.Stat_t, owner int) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFREG && int64(st.Uid) == int64(owner) && st.Nlink == 1
}
