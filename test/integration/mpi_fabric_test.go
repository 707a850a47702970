package integration

import (
	"errors"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/rdma"
	"github.com/mpiup/mpiup/test/need"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// Open MPI is told that there is no fabric, unless the user says something of it, and works.
func TestOpenMPINeedNotLookForFabrics(t *testing.T) {
	t.Parallel()
	need.Program(t, "mpicc.openmpi", "libopenmpi-dev")
	if rdma.HasFabric(sysfs.Host()) {
		need.Done(t, "nofabric", errors.New("this machine has a fabric device"), "run where there is none")
	}
	l := hosted(t)
	for _, c := range []struct{ name, flags, want string }{
		{"by itself", "", "ob1"},
		{"told not to", "--no-transport-hints", ""},
		{"over the user's pml", "-x OMPI_MCA_pml=^cm", "^cm"},
		{"beside the user's mtl", "-x OMPI_MCA_mtl=^ofi", ""},
		{"a rank of another MPI", "--mpi pmi1", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"-n", "1", "--mpi", "pmix"}, strings.Fields(c.flags)...)
			r := l.run(t, job{hosts: "w0:1", args: append(args, "sh", "-c", "echo =$OMPI_MCA_pml")}).OK(t)
			if got := strings.TrimSpace(r.Stdout); got != "="+c.want {
				t.Errorf("OMPI_MCA_pml is %q, want %q", got, c.want)
			}
		})
	}
	r := l.run(t, job{hosts: "w0:2,w1:2", args: []string{"-n", "4", l.openMPI(t, "hello")}}).OK(t)
	if n := strings.Count(r.Stdout, " of 4 on w"); n != 4 {
		t.Errorf("%d of 4 ranks:\n%s", n, r.Stdout)
	}
}

// A host without RDMA devices is named when RDMA was asked for, and tcp is told to every library.
func TestFabric(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	if !rdma.HasFabric(sysfs.Host()) {
		l.run(t, job{hosts: "w0:1,w1:1", args: []string{"-n", "2", "--fabric", "rdma", "true"}}).
			Fails(t, 247, "--fabric rdma: this machine has no RDMA device", " on w")
	}
	r := l.run(t, job{hosts: "w0:1,w1:1", args: []string{"-n", "2", "--fabric", "tcp", "--nccl", "p2p=off", "-x", "UCX_TLS=tcp",
		"sh", "-c", "echo $NCCL_IB_DISABLE $NCCL_P2P_DISABLE $UCX_TLS $FI_PROVIDER"}}).OK(t)
	if r.Stdout != "1 1 tcp tcp\n1 1 tcp tcp\n" {
		t.Errorf("ranks have %q", r.Stdout)
	}
}
