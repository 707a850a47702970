package cluster

import (
	"regexp"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/need"
)

// trained is what each rank of an example says whose model has learned.
var trained = regexp.MustCompile(`(?m)^rank \d+ of \d+: loss [\d.]+ to [\d.]+, weights equal rank 0's: True$`)

// trains skips a test, and not only its parts, where the cluster has no images that train.
func trains(t *testing.T) {
	t.Helper()
	need.Asked(t, "MPIUP_CLUSTER_TRAINING", "1, on the cluster that make cluster FRAMEWORKS=1 started,")
}

// learned fails the test unless each rank of the launcher's job has learned.
func (s *space) learned(ranks int) {
	s.Helper()
	out := s.logs(launcher(s))
	if found := trained.FindAllString(out, -1); len(found) != ranks {
		s.Errorf("%d ranks learned, want %d:\n%s", len(found), ranks, out)
	}
}

// The examples of frameworks as they are, on CPUs: an MPIJob of each, then its runtime for Trainer and its TrainJob.
func TestTraining(t *testing.T) {
	trains(t)
	for _, of := range []struct {
		name  string
		ranks int
	}{{"torch-ddp", 4}, {"lightning", 4}, {"deepspeed", 4}, {"jax", 2}, {"horovod-pytorch", 4}} {
		t.Run(of.name+" mpijob", func(t *testing.T) {
			s := namespace(t)
			s.apply(example(t, of.name+"/mpijob.yaml"))
			s.becomes("Succeeded", "mpijob/"+of.name)
			s.learned(of.ranks)
		})
		t.Run(of.name+" trainjob", func(t *testing.T) {
			s := namespace(t)
			t.Cleanup(func() { s.k("delete", "clustertrainingruntime", of.name, "--ignore-not-found") })
			s.apply(example(t, of.name+"/trainer.yaml"))
			s.becomes("Complete", "trainjob/"+of.name)
			s.learned(of.ranks)
		})
	}
}

// Intel MPI's example as it is.
func TestIntelMPI(t *testing.T) {
	trains(t)
	s := namespace(t)
	s.apply(example(t, "mpijob-intel.yaml"))
	s.becomes("Succeeded", strings.TrimSpace(s.k("get", "mpijob", "-o", "name")))
	s.computed(launcher(s), 4)
}
