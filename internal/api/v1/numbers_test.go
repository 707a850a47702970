package apiv1

import (
	"testing"

	"github.com/mpiup/mpiup/internal/job"
)

// The words of internal/job that cross the network as numbers have those of the protocol.
func TestNumbersAreThoseOfJob(t *testing.T) {
	for ours, want := range map[job.Protocol]Pmi{job.PMI1: Pmi_PMI_FD, job.PMI1OverPort: Pmi_PMI_PORT, job.NoProtocol: Pmi_PMI_NONE,
		job.PMIx: Pmi_PMI_PMIX, job.AutoProtocol: Pmi_PMI_AUTO, job.PMI2: Pmi_PMI_2} {
		if Pmi(ours) != want {
			t.Errorf("%v is %d here and %d there", want, ours, want)
		}
	}
	for ours, want := range map[job.Stream]Stream{job.Stdout: Stream_STDOUT, job.Stderr: Stream_STDERR} {
		if Stream(ours) != want {
			t.Errorf("%v is %d here and %d there", want, ours, want)
		}
	}
}
