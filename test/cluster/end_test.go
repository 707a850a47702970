package cluster

import (
	"strings"
	"testing"
)

// After the last failure of each kind somebody reads the verdict by the command of docs/exit-codes.md, and in the termination message.
func TestVerdictAfterTheLastFailure(t *testing.T) {
	asked(t)
	t.Parallel()
	const fails = `"sh", "-c", "echo oops >&2; exit 7"`
	for _, of := range []struct {
		name, file, job, condition, pod string
		change                          []string
	}{
		{"mpijob", "mpijob.yaml", "mpijob/pi", "Failed", "pi-launcher",
			[]string{"    cleanPodPolicy: Running ", "    backoffLimit: 1\n    cleanPodPolicy: Running ", `"/opt/pi"`, fails}},
		{"job", "indexed-job.yaml", "job/pi", "Failed", "pi-0", []string{"backoffLimit: 11 ", "backoffLimit: 2 ", `"/opt/pi"`, fails}},
		{"jobset", "jobset.yaml", "jobset/pi", "Failed", "pi-node-0-0", []string{"{maxRestarts: 3}", "{maxRestarts: 1}", `"/opt/pi"`, fails}},
		{"trainjob", "trainer-runtime.yaml", "trainjob/pi", "Failed", "pi-launcher-0-0",
			[]string{"name: mpi-mpiup", "name: mpi-fails", `"/opt/pi"`, fails,
				"trainjob-ancestor-step: trainer\n          spec:\n", "trainjob-ancestor-step: trainer\n          spec:\n            backoffLimit: 1\n"}},
	} {
		t.Run(of.name, func(t *testing.T) {
			t.Parallel()
			s := namespace(t)
			s.keyed()
			if of.name == "trainjob" {
				t.Cleanup(func() { s.k("delete", "clustertrainingruntime", "mpi-fails", "--ignore-not-found") })
			}
			s.apply(changedTo(t, example(t, of.file), of.change...))
			s.becomes(of.condition, of.job)
			s.plugs(0, "report "+of.job, "exited with code 7", "oops")
			if e := s.over(s.pod(of.pod).Metadata.Name); !strings.Contains(e.Message, "exited with code 7") {
				t.Errorf("the termination message is %q", e.Message)
			}
		})
	}
}
