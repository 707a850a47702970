package run

import (
	"strings"
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
				"see whether a wrapper takes PMI_* out of their environment; try --mpi pmi-port if it closes descriptors, --mpi pmix if the library was " +
				"built for PMIx only\n"},
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

// Several ranks that were seen alone in MPI fail the run. One may want to be alone, and one that merely had a library is told of.
func TestAloneFails(t *testing.T) {
	const mpich = "MPICH 4.2.0 (/usr/lib/libmpich.so.12)"
	rank := func(rank uint32, alone bool) *apiv1.Exited {
		return &apiv1.Exited{Rank: rank, Library: mpich, Alone: alone}
	}
	spoke := func(rank uint32) *apiv1.Exited { return &apiv1.Exited{Rank: rank, Pmi: apiv1.PmiState_PMI_FINALIZED} }
	for _, c := range []struct {
		name   string
		exits  []*apiv1.Exited
		ok     bool // --alone-ok
		status int
		says   string // the verdict's first line, or what is said
	}{
		{"all were seen", []*apiv1.Exited{rank(0, true), rank(1, true), rank(2, true), rank(3, true)}, false, 247, "ranks 0-3 called MPI_Init and were each alone, as rank 0 of 1"},
		{"two were, the others are alike", []*apiv1.Exited{rank(0, true), rank(1, false), rank(2, true), rank(3, false)}, false, 247, "ranks 0-3 called MPI_Init"},
		{"two on one host, the other host's spoke", []*apiv1.Exited{rank(0, true), rank(1, true), spoke(2), spoke(3)}, false, 247, "ranks 0-1 called MPI_Init"},
		{"one was", []*apiv1.Exited{rank(0, true), rank(1, false), rank(2, false), rank(3, false)}, false, 0, "warning: 4 ranks of a.out use " + mpich},
		{"one, the others have no library", []*apiv1.Exited{rank(0, true), {Rank: 1}, {Rank: 2}, {Rank: 3}}, false, 0, ""},
		{"none was", []*apiv1.Exited{rank(0, false), rank(1, false), rank(2, false), rank(3, false)}, false, 0, "warning: 4 ranks of a.out use " + mpich},
		{"meant", []*apiv1.Exited{rank(0, true), rank(1, true), rank(2, true), rank(3, true)}, true, 0, ""},
		{"an agent that says so of one that spoke", []*apiv1.Exited{{Rank: 0, Library: mpich, Alone: true, Pmi: apiv1.PmiState_PMI_FINALIZED},
			{Rank: 1, Library: mpich, Alone: true, Pmi: apiv1.PmiState_PMI_RUNNING, Code: 3}, spoke(2), spoke(3)}, false, 3, "rank 1 on w0 exited with code 3"},
		{"a rank failed besides", []*apiv1.Exited{rank(0, true), rank(1, true), rank(2, true), {Rank: 3, Code: 5}}, false, 5, "rank 3 on w1 exited with code 5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := aboutToLaunch(t, Config{Wishes: Wishes{PMI: job.PMI1, AloneOK: c.ok}})
			for _, m := range c.exits {
				r.on(int(m.Rank/2), m.Frame())
			}
			r.step(Over{})
			status, said := 0, r.said.String()
			if f, failed := r.verdict.Cause(); failed {
				status, said = f.Status(), r.verdict.Explain()[0]
			}
			if status != c.status || !strings.Contains(said, c.says) || c.says == "" && said != "" {
				t.Errorf("status %d, %q; want %d, %q", status, said, c.status, c.says)
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
