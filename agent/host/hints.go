package host

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Hints is what a session's ranks were given: files in memory, which ranks open by their names
// under /proc. They need no directory that can be written to, nobody can change them, and nothing
// of them is left however the agent ends. A rank that may not look there (of another user, in a
// container of its own) finds no file, and hwloc reads /sys. The zero value has none.
type Hints struct {
	mu   sync.Mutex
	text string     // of the latest, guarded by mu
	all  []*os.File // guarded by mu
}

// Path is that of a file with the text.
func (f *Hints) Path(text string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.all) == 0 || f.text != text {
		file, err := sealed("mpiup-topology.xml", text)
		if err != nil {
			return "", err
		}
		f.text, f.all = text, append(f.all, file)
	}
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.all[len(f.all)-1].Fd()), nil
}

// Close ends the files; a rank that has one open goes on reading.
func (f *Hints) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, file := range f.all {
		file.Close()
	}
	f.all, f.text = nil, ""
}

// sealed is a file in memory that holds the text and never anything else.
func sealed(name, text string) (*os.File, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_NOEXEC_SEAL)
	if err == unix.EINVAL { // before Linux 6.3
		fd, err = unix.MemfdCreate(name, flags)
	}
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err = f.WriteString(text); err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}
