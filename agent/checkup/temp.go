package checkup

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/internal/awake"
)

// Temp is the directory for temporary files. Open MPI's session directory lies there, without which its ranks end in
// MPI_Init (4.1.4: exit code 1, 5.0.11: SIGSEGV); MPICH 4.0.2 and 5.0.2 do without it.
type Temp struct {
	Dir     string // $TMPDIR, else /tmp
	Err     error  // why nothing can be written there; nil: something can
	Free    uint64 // bytes
	Unknown bool   // it was not looked at, and Err says why
}

// LeastTemp is what it must have free for Open MPI to begin: a few small files a rank.
const LeastTemp = mib

// ErrSilent is a file system that does not answer.
var ErrSilent = errors.New("its file system does not answer")

// LookTemp looks at a directory, for bound at most: a dead mount keeps the goroutine that asks, until it answers.
func LookTemp(dir string, bound time.Duration) Temp {
	if t, in := awake.Call(bound, func() Temp { return lookTemp(dir) }); in {
		return t
	}
	return Temp{Dir: dir, Err: ErrSilent}
}

func lookTemp(dir string) Temp {
	t := Temp{Dir: dir}
	var st unix.Stat_t
	var fs unix.Statfs_t
	switch err := unix.Stat(dir, &st); {
	case err != nil:
		t.Err = err
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		t.Err = syscall.ENOTDIR
	default: // a read-only file system tells even root (access(2))
		t.Err = unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
	}
	if err := unix.Statfs(dir, &fs); err == nil {
		t.Free = fs.Bavail * uint64(fs.Bsize)
	} else if t.Err == nil {
		t.Err, t.Unknown = err, true
	}
	return t
}

// TempFix is how a pod gets such a directory.
const TempFix = "mount a volume {name: tmp, emptyDir: {}} at /tmp, or set TMPDIR to a directory that can be written"

// Wrong says why MPI will not begin there; "" where it will.
func (t Temp) Wrong() string {
	switch {
	case t.Dir == "" || t.Unknown:
		return ""
	case t.Err != nil:
		return fmt.Sprintf("nothing can be written to %s (%v)", t.Dir, t.Err)
	case t.Free < LeastTemp:
		return fmt.Sprintf("%s has %s free", t.Dir, sizeOf(t.Free))
	}
	return ""
}

func temporary(h *Host) Finding {
	const name = "temporary files"
	switch wrong := h.Temp.Wrong(); {
	case wrong != "":
		return Finding{name, Fail, wrong + ": Open MPI does not begin without", TempFix}
	case h.Temp.Dir == "" || h.Temp.Unknown:
		return Finding{Name: name, Verdict: Unknown, Text: fmt.Sprintf("the free space of %s cannot be read (%v)", h.Temp.Dir, h.Temp.Err)}
	}
	return Finding{Name: name, Text: fmt.Sprintf("%s can be written, %s free", h.Temp.Dir, sizeOf(h.Temp.Free))}
}
