package mpirun

import (
	"strings"
	"testing"

	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

func TestForward(t *testing.T) {
	launcher := strings.Fields(`A=1 B=2 HOME=/root HOSTNAME=l PWD=/ PATH=/bin LD_LIBRARY_PATH=/l EMPTY=
		NVIDIA_VISIBLE_DEVICES= NVIDIA_DRIVER_CAPABILITIES= K_MPI_JOB_ROLE=launcher KUBERNETES_PORT=tcp://10.0.0.1
		WEB_SERVICE_HOST=10.0.0.2 WEB_SERVICE_PORT_HTTP=80 WEB_PORT=tcp WEB_PORT_80_TCP_ADDR=10.0.0.2 SUPPORT=yes
		MPIUP_KEY=/k HYDRA_HOST_FILE=/f HYDRA_LAUNCH_EXTRA_ARGS=-o I_MPI_HYDRA_HOST_FILE=/f I_MPI_FABRICS=shm PMI_RANK=3 PMIX_RANK=3
		OMPI_MCA_orte_default_hostfile=/f OMPI_MCA_orte_keep_fqdn_hostnames=true OMPI_MCA_plm_rsh_args=-o OMPI_MCA_plm=rsh
		OMPI_MCA_ess=^singleton OMPI_MCA_ess_base_jobid=1 OMPI_MCA_pmix_server_uri=u OMPI_MCA_btl=self OMPI_MCA_hwloc_base_binding_policy=none
		OMPI_MCA_mca_base_env_list=A OMPI_COMM_WORLD_RANK=3 OMPI_UNIVERSE_SIZE=8 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_MINE=1
		PMIX_MCA_gds=hash PRTE_MCA_plm=ssh PRTE_LAUNCHED=1 PRTE_X=1`)
	for _, tt := range []struct {
		name string
		line line.Line
		want string
	}{
		{"Open MPI", line.Line{Family: line.OpenMPI}, "OMPI_MCA_btl OMPI_MINE PMIX_MCA_gds PRTE_X"},
		{"Hydra", line.Line{Family: line.Hydra}, `A B EMPTY SUPPORT I_MPI_FABRICS OMPI_MCA_orte_default_hostfile OMPI_MCA_orte_keep_fqdn_hostnames OMPI_MCA_plm_rsh_args
			OMPI_MCA_plm OMPI_MCA_ess OMPI_MCA_ess_base_jobid OMPI_MCA_pmix_server_uri OMPI_MCA_btl OMPI_MCA_hwloc_base_binding_policy
			OMPI_MCA_mca_base_env_list OMPI_UNIVERSE_SIZE OMPI_ALLOW_RUN_AS_ROOT OMPI_MINE PMIX_MCA_gds PRTE_MCA_plm PRTE_LAUNCHED PRTE_X`},
		{"none", line.Line{Family: line.Hydra, Inherit: line.Inherit{None: true}}, ""},
		{"a list, by name also what is the container's", line.Line{Family: line.Hydra, Inherit: line.Inherit{Only: []string{"A", "PATH", "NOPE"}}}, "A PATH"},
		{"a program's own wish", line.Line{Family: line.Hydra, Inherit: line.Inherit{None: true}, Contexts: []line.Context{{Inherit: &line.Inherit{Only: []string{"B"}}}}}, "B"},
	} {
		if tt.line.Contexts == nil {
			tt.line.Contexts = []line.Context{{}}
		}
		var names []string
		for _, kv := range Forward(&tt.line, 0, launcher) {
			name, _, _ := strings.Cut(kv, "=")
			names = append(names, name)
		}
		if got, want := strings.Join(names, " "), strings.Join(strings.Fields(tt.want), " "); got != want {
			t.Errorf("%s:\n%s\nnot\n%s", tt.name, got, want)
		}
	}
	except := line.Line{Family: line.Hydra, Inherit: line.Inherit{Except: []string{"A"}}, Contexts: []line.Context{{}}}
	if got := Forward(&except, 0, []string{"A=1", "B=2", "nonsense", "=x"}); len(got) != 1 || got[0] != "B=2" {
		t.Errorf("all but A: %q", got)
	}
}
