package jobdata

import (
	"strings"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// Caller is where the rank that spawned a job waits for the job's first call.
type Caller struct {
	Port    string
	OMPI5   bool   // it reads lists of processes as Open MPI 5 writes them
	Program string // for people
}

// CallerOf is how a rank waits for the new job's call; nil if it does not, or not as Open MPI does.
func CallerOf(infos []bfrops.Info, apps []bfrops.App) *Caller {
	personality, _ := bfrops.Attribute(infos, "pmix.pers")
	if p := personality.Text(); p != "ompi" && p != "ompi5" || len(apps) == 0 {
		return nil
	}
	for _, kv := range apps[0].Env {
		if port, ok := strings.CutPrefix(kv, "OMPI_PARENT_PORT="); ok && port != "" {
			return &Caller{port, personality.Text() == "ompi5", Argv(apps[0])[0]}
		}
	}
	return nil
}

// The name of no job: to connect with it fails at once. Open MPI 4 needs a number for it, which no
// job's is: it makes them from hashes of names, without the highest bit (OPAL_HASH_JOBID of
// opal/mca/pmix/base/base.h would have it clear).
const (
	RefusedNamespace = "mpiup-refused"
	refusedNumber    = "4294901760"
)

// Refusal is the pair that answers at the port in place of new ranks, for its first reader: a list of processes that is
// one of no job. The root of the spawn takes it and tells the others, and all of them fail to connect with it
// (ompi_dpm_connect_accept of ompi/dpm/dpm.c).
func (c *Caller) Refusal() (key string, value bfrops.Value) {
	list := refusedNumber + ".0:" + RefusedNamespace
	if c.OMPI5 {
		list = RefusedNamespace + ".0"
	}
	return c.Port + ":connect", bfrops.Value{Type: bfrops.String, Data: list}
}
