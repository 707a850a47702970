package integration

import (
	"strings"
	"testing"
)

// TestFamilyOfRealPrograms: whose command line it is, by each thing that says so, with programs of MPICH
// 4.0.2 and Open MPI 4.1.4, which start whichever it is; where their ranks are shows how the line was read.
func TestFamilyOfRealPrograms(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	mpich, ompi := l.program(t, "hello"), l.openMPI(t, "hello")
	blocks := "HYDRA_HOST_FILE=" + l.file(t, "w0:1\nw1:1\n")
	slots := "OMPI_MCA_orte_default_hostfile=" + l.file(t, "w0 slots=2\nw1 slots=2\n")
	for _, c := range []struct {
		name  string
		args  []string
		env   []string
		why   string
		where string // of the second rank of two
	}{
		{"Open MPI's option before MPICH's program", []string{"-H", "w0:2,w1:2", "-np", "2", mpich}, nil,
			"Open MPI's command line: only Open MPI has -H; by the rules of Open MPI 4.1: nothing says otherwise", "rank 1 of 2 on w0"},
		{"Hydra's option before Open MPI's program", []string{"-ppn", "1", "-hosts", "w0,w1", "-n", "2", ompi}, nil,
			"Hydra's command line: only Hydra has -ppn", "rank 1 of 2 on w1"},
		{"Hydra's option beside Open MPI's operator", []string{"-genvall", "-n", "2", mpich}, []string{slots},
			"Hydra's command line: only Hydra has -genvall", "rank 1 of 2 on w0"},
		{"Open MPI's operator, MPICH's program", []string{"-n", "2", mpich}, []string{slots},
			"Open MPI's command line: OMPI_MCA_orte_default_hostfile is set", "rank 1 of 2 on w0"},
		{"Hydra's operator, Open MPI's program", []string{"-n", "2", ompi}, []string{blocks},
			"Hydra's command line: HYDRA_HOST_FILE is set", "rank 1 of 2 on w1"},
		{"MPICH's program", []string{"-n", "2", mpich}, nil, "Hydra's command line: its library is what " + mpich + " needs", "rank 1 of 2 on "},
		{"Open MPI's program", []string{"-n", "2", ompi}, nil,
			"Open MPI's command line: its library is what " + ompi + " needs; by the rules of Open MPI 4.1: " + ompi + " needs a library of Open MPI 4", "rank 1 of 2 on "},
		{"told otherwise, Hydra", []string{"-n", "2", ompi}, []string{slots, "MPIUP_FAMILY=hydra"}, "Hydra's command line: MPIUP_FAMILY says so", "rank 1 of 2 on w0"},
		{"told otherwise, Open MPI 5", []string{"-np", "2", mpich}, []string{blocks, "MPIUP_FAMILY=openmpi5"},
			"Open MPI's command line: MPIUP_FAMILY says so; by the rules of Open MPI 5: MPIUP_FAMILY says so", "rank 1 of 2 on w1"},
		{"a word of Open MPI 5", []string{"-H", "w0:2", "-np", "2", "--bind-to", "none", "--map-by", "package", ompi}, nil,
			"by the rules of Open MPI 5: Open MPI 4.1 has no --map-by package", "rank 1 of 2 on w0"},
		{"no MPI", []string{"sh", "-c", "echo rank 1 of 2 on nothing"}, nil, "Open MPI's command line: nothing says otherwise", "rank 1 of 2 on nothing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			env := append([]string{"OMPI_MCA_pml=ob1", "OMPI_MCA_btl=self,vader,tcp", "OMPI_MCA_mpi_yield_when_idle=1"}, c.env...)
			if !strings.HasSuffix(c.where, " on ") && !strings.HasSuffix(c.where, "nothing") { // else there are no hosts: a laptop, without a job's secret
				env = append(env, "MPIUP_KEY="+l.key)
			}
			r := l.command(t, job{env: env}, append([]string{l.link(t, "mpirun"), "-v"}, c.args...)...).Wait(t)
			if r.Code != 0 || !strings.Contains(r.Stderr, "mpirun (mpiup): read as "+c.why) && !strings.Contains(r.Stderr, "; "+c.why) {
				t.Errorf("ended with %d and does not say that it is %s\n%s", r.Code, c.why, r.Stderr)
			}
			if !strings.Contains(r.Stdout, c.where) {
				t.Errorf("no %q in\n%s%s", c.where, r.Stdout, r.Stderr)
			}
		})
	}
}
