package ranks

import (
	"github.com/mpiup/mpiup/agent/checkup"
	"github.com/mpiup/mpiup/agent/look"
	"github.com/mpiup/mpiup/agent/watch"
)

// recorders are what is seen of a job's ranks besides their output.
type recorders struct {
	flight  *look.Recorder   // of torch's flight recorders; nil: none
	Waits   *watch.Job       // how long they wait in MPI; nil: nobody wants to know
	trails  *watch.Trails    // what they write of how far they are; nil: nobody wants to know
	Devices *checkup.Devices // of the host, as the job finds them
}
