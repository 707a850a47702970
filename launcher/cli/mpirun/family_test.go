package mpirun

import (
	"strings"
	"testing"
)

func TestDecide(t *testing.T) {
	for _, tt := range []struct {
		name, line string
		world
		program Family // whose library a.out needs
		want    Family
		why     string
	}{
		{name: "mpirun", line: "-np 4 a.out", want: OpenMPI, why: "nothing says otherwise"},
		{name: "mpiexec", line: "-n 4 a.out", want: OpenMPI, why: "nothing says otherwise"},
		{name: "mpirun", line: "-np 4 a.out", program: Hydra, want: Hydra, why: "its library is what a.out needs"},
		{name: "/usr/bin/mpiexec.hydra", line: "-np 4 a.out", want: Hydra, why: "it is called mpiexec.hydra"},
		{name: "prterun", line: "-np 4 a.out", program: Hydra, want: OpenMPI, why: "it is called prterun"},
		{name: "mpirun", line: "-np 4 -x A a.out", program: Hydra, want: OpenMPI, why: "only Open MPI has -x"},
		{name: "mpirun", line: "-np 4 --mca btl self a.out", want: OpenMPI, why: "only Open MPI has --mca"},
		{name: "mpirun", line: "-H a:2 a.out", want: OpenMPI, why: "only Open MPI has -H"},
		{name: "mpirun", line: "-np=4 -ppn 2 a.out", world: world{env: "OMPI_MCA_orte_default_hostfile=/f"}, want: Hydra, why: "only Hydra has -ppn"},
		{name: "mpirun", line: "-n 4 -genv A x a.out -x", want: Hydra, why: "only Hydra has -genv"},
		{name: "mpirun", line: "-n 1 a.out : -n 3 -env A 1 b.out", want: Hydra, why: "only Hydra has -env"},
		{name: "mpirun", line: "-n 4 a.out -ppn 2", want: OpenMPI, why: "nothing says otherwise"},
		{name: "mpirun", line: "-wdir -ppn a.out", want: OpenMPI, why: "nothing says otherwise"},
		{name: "mpirun", line: "-n 4 a.out", world: world{env: "OMPI_MCA_orte_default_hostfile=/f"}, program: Hydra, want: OpenMPI, why: "OMPI_MCA_orte_default_hostfile is set"},
		{name: "mpirun", line: "-n 4 a.out", world: world{env: "HYDRA_HOST_FILE=/f"}, program: OpenMPI, want: Hydra, why: "HYDRA_HOST_FILE is set"},
		{name: "mpirun", line: "-n 4 a.out", world: world{env: "I_MPI_HYDRA_HOST_FILE=/f"}, want: Hydra, why: "I_MPI_HYDRA_HOST_FILE is set"},
		{name: "mpirun", line: "-x A a.out", world: world{env: "MPIUP_FAMILY=Hydra"}, want: Hydra, why: "MPIUP_FAMILY says so"},
		{name: "mpiexec.hydra", line: "a.out", world: world{env: "MPIUP_FAMILY=ompi"}, want: OpenMPI, why: "MPIUP_FAMILY says so"},
		{name: "mpirun", line: "-s 1 a.out", program: Hydra, want: OpenMPI, why: "nothing says otherwise"}, // Open MPI's takes no value
		{name: "mpirun", line: "--version", want: OpenMPI, why: "nothing says otherwise"},
		{name: "mpirun", line: "-bogus 4 a.out", program: Hydra, want: OpenMPI, why: "nothing says otherwise"},
		{name: "mpirun", line: "", want: OpenMPI, why: "nothing says otherwise"},
	} {
		o := tt.outside()
		got, why, err := Decide(tt.name, words(t, tt.line), o.Lookup, func(argv []string) Family {
			if argv[0] == "a.out" {
				return tt.program
			}
			t.Errorf("%s: asked about %q", tt.line, argv)
			return ""
		})
		if err != nil || got != tt.want || why != tt.why {
			t.Errorf("%s %s: %s, since %s, %v; not %s, since %s", tt.name, tt.line, got, why, err, tt.want, tt.why)
		}
	}
	o := world{env: "MPIUP_FAMILY=lam"}.outside()
	if _, _, err := Decide("mpirun", nil, o.Lookup, nil); err == nil || !strings.Contains(err.Error(), `MPIUP_FAMILY is "lam"`) {
		t.Errorf("error %v", err)
	}
}

// Horovod and Accelerate look for words in what --version prints (horovodrun: "Open MPI" or
// "OpenRTE", "MPICH" or "HYDRA").
func TestVersionText(t *testing.T) {
	for _, tt := range []struct {
		family Family
		name   string
		want   string
	}{
		{OpenMPI, "mpirun", "mpirun (Open MPI) 4.1.6 (mpiup v1)\n"},
		{OpenMPI, "/usr/bin/orterun", "orterun (OpenRTE) 4.1.6 (mpiup v1)\n"},
		{Hydra, "mpiexec", "HYDRA build details:\n    Version: "},
	} {
		if got := VersionText(tt.family, tt.name, "v1"); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
}
