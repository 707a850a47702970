package checkup

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
)

// Room is what MPI libraries need of a host when they begin.
type Room struct {
	Ranks            int    // of the job that run here
	ShmSize, ShmFree uint64 // of /dev/shm in bytes; size 0: it is not there
	Temp             Temp   // the zero value where it does not matter
	Bus              bool   // a rank was killed by SIGBUS, as one is that touches a page that /dev/shm cannot hold
}

// Shm is size and free space of /dev/shm in bytes; 0 where it is not there.
func Shm() (size, free uint64) {
	var fs unix.Statfs_t
	if unix.Statfs("/dev/shm", &fs) != nil {
		return 0, 0
	}
	return fs.Blocks * uint64(fs.Bsize), fs.Bavail * uint64(fs.Bsize)
}

// What a rank takes of /dev/shm before MPI_Init returns: 4,292,720 bytes with MPICH 4.0.2 over UCX 1.13, which then
// aborts; 4,194,312 with Open MPI 4.1.4, which goes on without. MPICH 5.0.2's rank dies of SIGBUS. More is taken later.
const (
	firstShm = 5 * mib
	laterShm = 16 * mib
)

// Lacking says what of it is too little for MPI to begin, and what to do; "" where all is there. It is for a job that has
// failed: the same as a check of a healthy host would warn of what never fails.
func (r Room) Lacking() (what job.Lack, text string) {
	ranks := uint64(max(r.Ranks, 1))
	each := uint64(firstShm)
	if r.Bus {
		each = laterShm
	}
	switch wrong := r.Temp.Wrong(); {
	case wrong != "":
		return job.LackTemp, wrong + ", and Open MPI does not begin without: " + TempFix
	case r.ShmSize == 0:
		return job.LackShm, "/dev/shm is not there, and MPI libraries need it: " + ShmFix
	case r.ShmSize < ranks*each:
		return job.LackShm, fmt.Sprintf("/dev/shm has %s for %s, and MPI libraries need more: %s", sizeOf(r.ShmSize), visible.Count(int(ranks), "rank"), ShmFix)
	case r.ShmFree < each:
		return job.LackShm, fmt.Sprintf("/dev/shm has %s free of %s, and MPI libraries need more: end what fills it (ls -l "+
			"/dev/shm), or %s", sizeOf(r.ShmFree), sizeOf(r.ShmSize), ShmFix)
	}
	return job.LackNothing, ""
}
