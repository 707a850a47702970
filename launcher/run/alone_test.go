package run

import (
	"testing"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
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
		offered apiv1.Pmi
		chosen  *apiv1.Chosen
		want    string
	}{
		{"PMI-1", all(&apiv1.Exited{Library: library}), apiv1.Pmi_PMI_FD, nil,
			"mpiup: warning: 4 ranks of a.out use " + library + " and never spoke to mpiup, which offered PMI-1: if they called MPI_Init, each was alone, as rank 0 of 1; " +
				"try --mpi pmi-port if a wrapper closes descriptors, --mpi pmix if the library was built for PMIx only\n"},
		{"chosen", all(&apiv1.Exited{Library: library}), apiv1.Pmi_PMI_AUTO, &apiv1.Chosen{Pmi: apiv1.Pmi_PMI_PMIX},
			"mpiup: warning: 4 ranks of a.out use " + library + " and never spoke to mpiup, which offered PMIx: if they called MPI_Init, each was alone, as rank 0 of 1; try --mpi pmi1\n"},
		{"Open MPI", all(&apiv1.Exited{Library: openMPI}), apiv1.Pmi_PMI_PORT, nil,
			"mpiup: warning: 4 ranks of a.out use " + openMPI + " and never spoke to mpiup, which offered PMI-1 over a port: if they called MPI_Init, each was alone, as rank 0 of 1; Open MPI needs --mpi pmix\n"},
		{"no library", all(&apiv1.Exited{}), apiv1.Pmi_PMI_FD, nil, ""},
		{"spoke", all(&apiv1.Exited{Library: library, Pmi: apiv1.PmiState_PMI_FINALIZED}), apiv1.Pmi_PMI_FD, nil, ""},
		{"failed", all(&apiv1.Exited{Library: library, Code: 1}), apiv1.Pmi_PMI_FD, nil, ""},
		{"stopped", all(&apiv1.Exited{Library: library, StoppedByUs: true}), apiv1.Pmi_PMI_FD, nil, ""},
		{"one", all(&apiv1.Exited{Library: library})[:1], apiv1.Pmi_PMI_FD, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := aboutToLaunch(t, Config{PMI: c.offered})
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
		library string
		offered apiv1.Pmi
		want    string
	}{
		{openMPI, apiv1.Pmi_PMI_PMIX, "see whether a wrapper takes PMIX_* or FLUX_JOB_ID out of their environment"},
		{openMPI, apiv1.Pmi_PMI_FD, "Open MPI needs --mpi pmix"},
		{"MPICH 5.0.2 (/x)", apiv1.Pmi_PMI_PORT, "try another protocol than PMI-1 over a port with --mpi"},
		{"MPICH 5.0.2 (/x)", apiv1.Pmi_PMI_PMIX, "try --mpi pmi1"},
	} {
		if got := aloneAdvice(c.library, job.Protocol(c.offered)); got != c.want {
			t.Errorf("%s, offered %v: %q, not %q", c.library, c.offered, got, c.want)
		}
	}
}
