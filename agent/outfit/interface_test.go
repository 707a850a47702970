package outfit

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mpiup/mpiup/internal/job"
)

func TestVariables(t *testing.T) {
	ports := job.Ports{Low: 18000, High: 18099}
	all := []string{"UCX_NET_DEVICES=net1", "FI_TCP_IFACE=net1", "FI_SOCKETS_IFACE=net1"}
	nccl := []string{"NCCL_SOCKET_IFNAME==net1", "GLOO_SOCKET_IFNAME=net1", "HOROVOD_GLOO_IFACE=net1"}
	allPorts := []string{"UCX_TCP_PORT_RANGE=18000-18099", "FI_TCP_PORT_LOW_RANGE=18000", "FI_TCP_PORT_HIGH_RANGE=18099"}
	ompi := []string{"OMPI_MCA_btl_tcp_if_include=net1"}
	ompiPorts := []string{"OMPI_MCA_btl_tcp_port_min_v4=18000", "OMPI_MCA_btl_tcp_port_range_v4=100",
		"OMPI_MCA_btl_tcp_port_min_v6=18000", "OMPI_MCA_btl_tcp_port_range_v6=100"}
	ch3 := []string{"MPIR_CVAR_NEMESIS_TCP_NETWORK_IFACE=net1"}
	ch3Ports := []string{"FI_PROVIDER=^sockets", "MPIR_CVAR_CH3_PORT_RANGE=18000:18099"}
	for _, tt := range []struct {
		name, fixture, links, asked string
		ports                       job.Ports
		speaks                      speech
		set                         []string
		want                        [][]string
	}{
		{"nothing", "multus", "eth0 10.99.0.1/24", "", job.Ports{}, pmi, nil, nil},
		{"Open MPI", "multus", two, "net1", ports, pmix, nil, [][]string{ompi, all, nccl, ompiPorts, allPorts}},
		{"MPICH", "multus", two, "net1", ports, pmi, nil, [][]string{all, ch3, nccl, allPorts, ch3Ports}},
		{"no MPI", "multus", two, "net1", ports, nothing, nil, [][]string{all, nccl, allPorts}},
		{"ports alone", "multus", "eth0 10.99.0.1/24", "", ports, pmix, nil, [][]string{ompiPorts, allPorts}},
		{"UCX keeps its RDMA devices", "rdma", three, "", job.Ports{}, pmix, nil, [][]string{ompi, all[1:], nccl}},
		{"UCX keeps them on another network, too", "rdma", three, "eth0", job.Ports{}, nothing, nil,
			[][]string{{"FI_TCP_IFACE=eth0", "FI_SOCKETS_IFACE=eth0", "NCCL_SOCKET_IFNAME==eth0", "GLOO_SOCKET_IFNAME=eth0", "HOROVOD_GLOO_IFACE=eth0"}}},
		{"ch3 knows no IPv6", "ipv6", six, "net1", job.Ports{}, pmi, nil, [][]string{all, nccl}},
		{"the user's stay", "multus", two, "net1", job.Ports{}, pmi, []string{"UCX_NET_DEVICES", "NCCL_SOCKET_IFNAME"}, [][]string{all[1:], ch3, nccl[1:]}},
		{"what would exclude the user's", "multus", two, "net1", job.Ports{}, pmix, []string{"OMPI_MCA_btl_tcp_if_exclude"}, [][]string{all, nccl}},
		{"a host name of the user's", "multus", two, "net1", job.Ports{}, pmi, []string{"MPIR_CVAR_CH3_INTERFACE_HOSTNAME"}, [][]string{all, nccl}},
		{"half a range of the user's", "multus", two, "", ports, pmix, []string{"OMPI_MCA_btl_tcp_port_min_v4", "FI_TCP_PORT_HIGH_RANGE", "OMPI_MCA_btl_tcp_if_include",
			"UCX_NET_DEVICES", "FI_TCP_IFACE", "FI_SOCKETS_IFACE", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "HOROVOD_GLOO_IFACE"},
			[][]string{ompiPorts[2:], allPorts[:1]}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			asked, err := job.ParseNetwork(tt.asked)
			if err != nil {
				t.Fatal(err)
			}
			h := networkOf(t, tt.fixture, tt.links)
			c, err := Choose(h, asked)
			if err != nil {
				t.Fatal(err)
			}
			got := variablesOf(h, c, tt.ports, tt.speaks, func(name string) bool { return slices.Contains(tt.set, name) })
			if d := cmp.Diff(slices.Concat(tt.want...), got); d != "" {
				t.Error(d)
			}
		})
	}
}
