package frameworks

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		texts []string
		want  Set
		err   string
	}{
		{nil, None, ""},
		{[]string{"auto"}, Torch | JAX | Horovod, ""},
		{[]string{"horovod"}, Horovod | HorovodGloo, ""},
		{[]string{"none"}, None, ""},
		{[]string{"torch", "tf"}, Torch | TensorFlow, ""},
		{[]string{"torch,jax,tf"}, Torch | JAX | JAXAlways | TensorFlow, ""},
		{[]string{"auto", "tf"}, Torch | JAX | Horovod | TensorFlow, ""},
		{[]string{"none", "torch"}, None, "none stands alone"},
		{[]string{"torch,none"}, None, "none stands alone"},
		{[]string{"pytorch"}, None, `"pytorch" is no framework; write one of auto, none, torch, jax, tf, horovod`},
		{[]string{""}, None, `"" is no framework`},
		{[]string{"torch,"}, None, `"" is no framework`},
		{[]string{strings.Repeat("x", 1<<20)}, None, "is no framework"},
	} {
		got, err := Parse(tt.texts)
		if (err == nil) != (tt.err == "") || err != nil && (!strings.Contains(err.Error(), tt.err) || len(err.Error()) > 200) {
			t.Errorf("%.60q: error %v, want %q", tt.texts, err, tt.err)
		}
		if got != tt.want {
			t.Errorf("%.60q is %b, want %b", tt.texts, got, tt.want)
		}
	}
}

// given is variables of one of the two by name.
func given(names ...string) func(string) bool {
	return func(name string) bool { return slices.Contains(names, name) }
}

func TestVariables(t *testing.T) {
	meet := Meeting{Host: netip.MustParseAddr("10.1.2.3"), Torch: 20001, JAX: 20002}
	six := Meeting{Host: netip.MustParseAddr("fd77::3"), Torch: 20001, JAX: 20002}
	second := Rank{Rank: 3, Size: 4, Local: 1, LocalSize: 2, Node: 1}
	alone := Rank{Rank: 1, Size: 2, LocalSize: 1, Node: 1, OnePerHost: true, GPUs: 8}
	again := alone
	again.Restarts, again.MaxRestarts = 1, 3
	const who = "RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 NODE_RANK=1"
	for _, tt := range []struct {
		name      string
		set       Set
		rank      Rank
		meet      Meeting
		user      []string
		container []string
		want      string
	}{
		{"none", None, second, meet, nil, nil, ""},
		{"torch", Torch, second, meet, nil, nil, who + " MASTER_ADDR=10.1.2.3 MASTER_PORT=20001"},
		{"torch over IPv6", Torch, second, six, nil, nil, who + " MASTER_ADDR=fd77::3 MASTER_PORT=20001"},
		{"torch, and nowhere to meet", Torch, second, Meeting{}, nil, nil, who},
		{"torch, and no port", Torch, second, Meeting{Host: meet.Host}, nil, nil, who},
		{"the user's stay", Torch, second, meet, []string{"RANK", "MASTER_PORT"}, nil,
			"WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 NODE_RANK=1 MASTER_ADDR=10.1.2.3"},
		{"the container's place stays", Torch, second, meet, nil, []string{"MASTER_ADDR", "MASTER_PORT"}, who},
		{"an operator's place is for the pod's one process", Torch, second, meet, nil, []string{"MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"},
			who + " MASTER_ADDR=10.1.2.3 MASTER_PORT=20001"},
		{"one on each host", Torch, alone, meet, nil, nil,
			"RANK=1 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 NODE_RANK=1 MASTER_ADDR=10.1.2.3 MASTER_PORT=20001 " +
				"PET_NNODES=2 PET_NODE_RANK=1 PET_MASTER_ADDR=10.1.2.3 PET_MASTER_PORT=20001 PET_NPROC_PER_NODE=8"},
		{"Debian's torchrun", Torch, Rank{Size: 1, LocalSize: 1, OnePerHost: true, OldTorchrun: true}, meet, nil, []string{"PET_TEE"},
			"RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 NODE_RANK=0 MASTER_ADDR=10.1.2.3 MASTER_PORT=20001 " +
				"PET_NNODES=1 PET_NODE_RANK=0 PET_MASTER_ADDR=10.1.2.3 PET_MASTER_PORT=20001 PET_REDIRECTS=9:1"},
		{"in the place of torchrun", Torch | Torchrun, second, meet, []string{"MASTER_ADDR", "MASTER_PORT", "ROLE_NAME"}, []string{"OMP_NUM_THREADS"},
			who + " GROUP_RANK=1 GROUP_WORLD_SIZE=2 ROLE_RANK=3 ROLE_WORLD_SIZE=4 TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=0 " +
				"TORCHELASTIC_MAX_RESTARTS=0 TORCHELASTIC_USE_AGENT_STORE=False TORCH_NCCL_ASYNC_ERROR_HANDLING=1"},
		{"in the place of torchrun, one on each host, for the second time", Torch | Torchrun, again, Meeting{}, nil, nil,
			"RANK=1 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 NODE_RANK=1 GROUP_RANK=1 GROUP_WORLD_SIZE=2 ROLE_RANK=1 ROLE_WORLD_SIZE=2 ROLE_NAME=default TORCHELASTIC_RUN_ID=none " +
				"TORCHELASTIC_RESTART_COUNT=1 TORCHELASTIC_MAX_RESTARTS=3 TORCHELASTIC_USE_AGENT_STORE=False TORCH_NCCL_ASYNC_ERROR_HANDLING=1"},
		{"torchrun's options of an operator", Torch, alone, meet, nil, []string{"PET_NNODES"},
			"RANK=1 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 NODE_RANK=1 MASTER_ADDR=10.1.2.3 MASTER_PORT=20001"},
		{"torchrun's processes of the user", Torch, alone, meet, nil, []string{"PET_NPROC_PER_NODE"},
			"RANK=1 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 NODE_RANK=1 MASTER_ADDR=10.1.2.3 MASTER_PORT=20001 " +
				"PET_NNODES=2 PET_NODE_RANK=1 PET_MASTER_ADDR=10.1.2.3 PET_MASTER_PORT=20001"},
		{"JAX", JAX, second, meet, nil, nil, "OMPI_MCA_orte_hnp_uri=0.0;tcp://10.1.2.3:20002 JAX_COORDINATOR_PORT=20002"},
		{"JAX over IPv6", JAX, second, six, nil, nil, "OMPI_MCA_orte_hnp_uri=0.0;tcp6://[fd77::3]:20002 JAX_COORDINATOR_PORT=20002"},
		{"JAX with all GPUs of the host", JAX, Rank{Size: 1, LocalSize: 1, GPUs: 3}, meet, nil, nil,
			"OMPI_MCA_orte_hnp_uri=0.0;tcp://10.1.2.3:20002 JAX_COORDINATOR_PORT=20002 JAX_LOCAL_DEVICE_IDS=0,1,2"},
		{"JAX with a GPU of its own", JAX, Rank{Rank: 3, Size: 4, Local: 1, LocalSize: 2, GPUs: 1, Narrowed: true}, meet, nil, nil,
			"OMPI_MCA_orte_hnp_uri=0.0;tcp://10.1.2.3:20002 JAX_COORDINATOR_PORT=20002 JAX_LOCAL_DEVICE_IDS=0"},
		{"JAX by local rank", JAX, Rank{Rank: 3, Size: 4, Local: 1, LocalSize: 2, GPUs: 8}, meet, nil, nil,
			"OMPI_MCA_orte_hnp_uri=0.0;tcp://10.1.2.3:20002 JAX_COORDINATOR_PORT=20002"},
		{"Horovod, by Gloo or MPI as it was built", Horovod, Rank{Rank: 3, Size: 4, Local: 1, LocalSize: 2, Node: 1, Cross: 1, CrossSize: 2, Host: "a/b:c"}, Meeting{Gloo: 40000}, nil, nil,
			"HOROVOD_RANK=3 HOROVOD_SIZE=4 HOROVOD_LOCAL_RANK=1 HOROVOD_LOCAL_SIZE=2 HOROVOD_CROSS_RANK=1 HOROVOD_CROSS_SIZE=2 HOROVOD_HOSTNAME=a-b-c-1 " +
				"HOROVOD_GLOO_RENDEZVOUS_ADDR=127.0.0.1 HOROVOD_GLOO_RENDEZVOUS_PORT=40000"},
		{"Horovod without a store", Horovod | HorovodGloo, second, meet, nil, nil, ""},
		{"TensorFlow", TensorFlow, Rank{Rank: 1, Size: 2, LocalSize: 2}, Meeting{TF: []string{"10.1.2.3:1", "[fd77::3]:2"}}, nil, nil,
			`TF_CONFIG={"cluster":{"worker":["10.1.2.3:1","[fd77::3]:2"]},"task":{"type":"worker","index":1}}`},
		{"TensorFlow without ports", TensorFlow, second, meet, nil, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, v := range Variables(tt.set, tt.rank, tt.meet, Given{given(tt.user...), given(tt.container...)}) {
				if v.Why == "" {
					t.Errorf("%s has no reader", v.Name)
				}
				got = append(got, v.Name+"="+v.Value)
			}
			if s := strings.Join(got, " "); s != tt.want {
				t.Errorf("\n%s, want\n%s", s, tt.want)
			}
		})
	}
}
