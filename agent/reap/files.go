package reap

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/agent/reap/program"
)

// closeOnExec marks every descriptor but the standard ones. So no child gets what this process inherited from its
// parent, or what a library opened without the flag.
func closeOnExec() {
	if unix.CloseRange(3, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return
	}
	// Before Linux 5.11, or refused by a seccomp profile.
	open, _ := os.ReadDir("/proc/self/fd") // those that can be read
	for _, f := range open {
		if fd, err := strconv.Atoi(f.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}

// fileSet is the descriptors of a child as ForkExec wants them.
type fileSet struct {
	fds  []uintptr
	null *os.File
}

func childFiles(files []*os.File) (fileSet, error) {
	fs := fileSet{fds: make([]uintptr, max(3, len(files)))}
	for i := range fs.fds {
		if i < len(files) && files[i] != nil {
			fs.fds[i] = files[i].Fd() // also makes it blocking
			if fs.fds[i] == ^uintptr(0) {
				fs.close()
				return fs, &program.Error{Phase: program.PhaseInit, Cause: fmt.Sprintf("descriptor %d is closed", i)}
			}
			continue
		}
		if i > 2 {
			fs.fds[i] = ^uintptr(0) // stays closed in the child
			continue
		}
		if fs.null == nil {
			null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
			if err != nil {
				return fs, &program.Error{Phase: program.PhaseInit, Path: os.DevNull, Errno: program.Errno(err)}
			}
			fs.null = null
		}
		fs.fds[i] = fs.null.Fd()
	}
	return fs, nil
}

func (f fileSet) close() {
	if f.null != nil {
		_ = f.null.Close()
	}
}
