package run

import (
	"testing"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/mixture"
)

func TestAlone(t *testing.T) {
	const library = "MPICH 4.2.0 (/usr/lib/libmpich.so.12)"
	all := func(m *apiv1.Exited) (list []*apiv1.Exited) {
		for rank := range uint32(4) {
			list = append(list, &apiv1.Exited{Rank: rank, Code: m.Code, Pmi: m.Pmi, Library: m.Library, StoppedByUs: m.StoppedByUs})
		}
		return list
	}
	for _, c := range []struct {
		name    string
		exits   []*apiv1.Exited
		offered job.Protocol
		chosen  *apiv1.Chosen
		want    string
	}{
		{"PMI-1", all(&apiv1.Exited{Library: library}), job.PMI1, nil,
			"mpiup: warning: 4 ranks of a.out use " + library + " and never spoke to mpiup, which offered PMI-1: if they called MPI_Init, each was alone, as rank 0 of 1; " +
				"try --mpi pmi-port if a wrapper closes descriptors, --mpi pmix if the library was built for PMIx only\n"},
		{"chosen", all(&apiv1.Exited{Library: library}), job.AutoProtocol, &apiv1.Chosen{Pmi: apiv1.Pmi_PMI_PMIX},
			"mpiup: warning: 4 ranks of a.out use " + library + " and never spoke to mpiup, which offered PMIx: if they called MPI_Init, each was alone, as rank 0 of 1; try --mpi pmi1\n"},
		{"Open MPI", all(&apiv1.Exited{Library: openMPI}), job.PMI1OverPort, nil,
			"mpiup: warning: 4 ranks of a.out use " + openMPI + " and never spoke to mpiup, which offered PMI-1 over a port: if they called MPI_Init, each was alone, as rank 0 of 1; Open MPI needs --mpi pmix\n"},
		{"no library", all(&apiv1.Exited{}), job.PMI1, nil, ""},
		{"spoke", all(&apiv1.Exited{Library: library, Pmi: apiv1.PmiState_PMI_FINALIZED}), job.PMI1, nil, ""},
		{"failed", all(&apiv1.Exited{Library: library, Code: 1}), job.PMI1, nil, ""},
		{"stopped", all(&apiv1.Exited{Library: library, StoppedByUs: true}), job.PMI1, nil, ""},
		{"one", all(&apiv1.Exited{Library: library})[:1], job.PMI1, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := aboutToLaunch(t, Config{Wishes: Wishes{PMI: c.offered}})
			if c.chosen != nil {
				r.on(0, c.chosen.Frame())
			}
			for _, m := range c.exits {
				r.on(int(m.Rank/2), m.Frame())
			}
			r.step(Over{})
			if r.said.String() != c.want {
				t.Errorf("said %q, not %q", r.said.String(), c.want)
			}
		})
	}
}

func TestAloneAdvice(t *testing.T) {
	for _, c := range []struct {
		loads   string
		offered job.Protocol
		want    string
	}{
		{openMPI, job.PMIx, "see whether a wrapper takes PMIX_* or FLUX_JOB_ID out of their environment"},
		{openMPI, job.PMI1, "Open MPI needs --mpi pmix"},
		{"MPICH 5.0.2 (/x)", job.PMI1OverPort, "try another protocol than PMI-1 over a port with --mpi"},
		{"MPICH 5.0.2 (/x)", job.PMIx, "try --mpi pmi1"},
	} {
		if got := mixture.Advice(c.loads, c.offered); got != c.want {
			t.Errorf("%s, offered %v: %q, not %q", c.loads, c.offered, got, c.want)
		}
	}
}
