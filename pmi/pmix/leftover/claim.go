package leftover

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// claimed begins the names by which agents share a directory of shared memory.
const claimed = "mpiup_run."

// Claimed is a name in shared memory that Segments leaves alone for as long as somebody has the file open.
func Claimed(what string) string { return claimed + what }

// Claim asks for the names of a run's segments in shm. Open MPI before 5 names a segment after the host's name, the job and the local rank
// (opal/mca/btl/vader/btl_vader_component.c), which are equal where two agents of one machine have one /dev/shm: ranks would write into each
// other's. The first agent of a run has the names, and "". Any other one gets a directory of its own in shm, named after its session. What
// is claimed is held until release, which removes it with all that is in it; Segments removes what a killed agent held. An error says why
// there is no such directory; release is never nil.
func Claim(shm, run, session string) (dir string, release func(), err error) {
	first, err := hold(filepath.Join(shm, claimed+run))
	if err == nil {
		return "", func() { os.Remove(first.Name()); first.Close() }, nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return "", func() {}, err
	}
	dir = filepath.Join(shm, claimed+session)
	for range 3 { // another agent removes an empty one, until something in it is held
		if err = os.Mkdir(dir, 0o700); err != nil { // one that is there may be another user's
			break
		}
		held, failed := hold(filepath.Join(dir, claimed+"held"))
		if failed == nil {
			return dir, func() { os.RemoveAll(dir); held.Close() }, nil
		}
		err = failed
	}
	return "", func() {}, err
}

// hold makes a file that Segments leaves alone for as long as it is open.
func hold(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}
