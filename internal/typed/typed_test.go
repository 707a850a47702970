package typed

import (
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/cost"
)

func TestGoes(t *testing.T) {
	for name, want := range map[string]bool{
		"NCCL_DEBUG": true, "UCX_TLS": true, "FI_PROVIDER": true, "OMP_NUM_THREADS": true, "TORCH_NCCL_DUMP_ON_TIMEOUT": true, "CUDA_LAUNCH_BLOCKING": true,
		"PATH": false, "LD_LIBRARY_PATH": false, "HOME": false, "PYTHONPATH": false, "MODE": false, "OMPI_MCA_btl": false, "NCCL_": false, "XNCCL_DEBUG": false,
		"CUDA_VERSION": false, "NCCL_VERSION": false, "": false,
	} {
		if Goes(name) != want {
			t.Errorf("Goes(%q) is %v", name, !want)
		}
	}
}

func TestSince(t *testing.T) {
	before := strings.Fields("A=1 B=1 NCCL_DEBUG=WARN PATH=/bin GONE=1")
	now := strings.Fields("NEW=x A=1 B=2 NCCL_DEBUG=INFO PATH=/opt/bin SHLVL=2 _=/bin/x MPIUP_WAIT=5 KUBERNETES_PORT=1 BASH_FUNC_module%%=() LD_LIBRARY_PATH=/x =odd odd")
	if got := strings.Join(Since(now, before), " "); got != "B=2 LD_LIBRARY_PATH=/x NCCL_DEBUG=INFO NEW=x" {
		t.Errorf("since is %q", got)
	}
	if got := Since(now, now); got != nil {
		t.Errorf("of one environment: %q", got)
	}
}

// In a pod a user's variables are asked for, and not what each pod is told of itself, of services and by operators.
func TestManifest(t *testing.T) {
	pod := "KUBERNETES_SERVICE_HOST=10.0.0.1 KUBERNETES_PORT=tcp://10.0.0.1:443 NODE_NAME=n POD_IP=10.1.2.3 JOB_COMPLETION_INDEX=0 K_MPI_JOB_ROLE=launcher " +
		"OMPI_MCA_orte_default_hostfile=/etc/mpi/hostfile OMPI_MCA_plm_rsh_args=x NVIDIA_VISIBLE_DEVICES= HOSTNAME=pi PATH=/bin CUDA_VERSION=12 MPIUP_POD_GRACE=30 " +
		"MY_DB_SERVICE_HOST=10.0.0.2 MY_DB_SERVICE_PORT=1 MY_DB_SERVICE_PORT_SQL=1 MY_DB_PORT=tcp://10.0.0.2:1 MY_DB_PORT_1_TCP=tcp://10.0.0.2:1 MY_DB_PORT_1_TCP_ADDR=10.0.0.2"
	mine := "A_PORT=1 DATA=/data MASTER_PORT=29500 MY_DB=x MY_SERVICE_NAME=y NCCL_DEBUG=INFO OMPI_MCA_btl=tcp"
	if got := strings.Join(Manifest(strings.Fields(pod+" "+mine)), " "); got != mine {
		t.Errorf("of a container are asked\n%s\nand not\n%s", got, mine)
	}
	if got := Manifest(strings.Fields(mine)); got != nil {
		t.Errorf("outside of Kubernetes %q", got)
	}
}

// A host is asked for names, and for values without seeing them.
func TestLacking(t *testing.T) {
	key := []byte("a session's key")
	marks := []Mark{Of("SAME=1", false, key), Of("OTHER=1", false, key), Of("NONE=1", false, key), Of("SECRET=1", true, key), Of("NO_SECRET=1", true, key), {Name: strings.Repeat("n", 256)}}
	for _, m := range marks[:3] {
		if len(m.Digest) != 8 || strings.Contains(string(m.Digest), "1=") {
			t.Errorf("a digest of %q", m.Digest)
		}
	}
	if marks[3].Digest != nil {
		t.Error("a secret has a digest")
	}
	env := strings.Fields("SAME=0 SAME=1 OTHER=2 SECRET=2 X")
	if got := Lacking(marks, env, key); !slices.Equal(got, []uint32{1, 2, 4}) {
		t.Errorf("lacking are %v", got)
	}
	if got := Lacking(marks[:1], env, []byte("another")); len(got) != 1 {
		t.Errorf("with another key %v", got)
	}
	if got := Lacking(make([]Mark, 1000), env, key); len(got) != MaxMarks {
		t.Errorf("of 1000 marks %d are answered", len(got))
	}
}

// Marks are anybody's.
func FuzzLacking(f *testing.F) {
	f.Add("A\nB\n", []byte("12345678"), "A=1\nB=2", []byte("key"))
	f.Fuzz(func(t *testing.T, names string, digest []byte, env string, key []byte) {
		defer cost.Watch(t, cost.Parser, len(names)+len(digest)+len(env)+len(key))()
		var marks []Mark
		for name := range strings.SplitSeq(names, "\n") {
			marks = append(marks, Mark{Name: name, Digest: digest})
		}
		for _, i := range Lacking(marks, strings.Split(env, "\n"), key) {
			if int(i) >= min(len(marks), MaxMarks) {
				t.Errorf("mark %d of %d", i, len(marks))
			}
		}
	})
}
