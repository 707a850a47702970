package outfit

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"github.com/mpiup/mpiup/agent/host"
	"github.com/mpiup/mpiup/internal/job"
)

// speech is what a rank speaks with whoever started it, which tells MPI libraries apart.
type speech int

const (
	nothing speech = iota
	pmi            // MPICH and its kin
	pmix           // Open MPI, above all
)

// variable is one that a library reads.
type variable struct {
	name    string
	unless  []string // others of the same meaning, or that exclude it: beside one of them it is left out
	only    speech   // nothing: every rank
	value   func(c Choice, p job.Ports) string
	applies func(n host.Network, c Choice) bool // nil: always
}

// byInterface are those that name the interface.
var byInterface = []variable{
	// Open MPI 4 and 5. It still listens on all addresses, and connects to this interface's.
	{name: "OMPI_MCA_btl_tcp_if_include", unless: []string{"OMPI_MCA_btl_tcp_if_exclude"}, only: pmix, value: ifname},
	// UCX: MPICH ch4:ucx, Open MPI's pml ucx. It filters RDMA devices as well, so it is left alone where there are some.
	{name: "UCX_NET_DEVICES", value: ifname, applies: func(n host.Network, _ Choice) bool { return !n.RDMA }},
	// libfabric: MPICH ch4:ofi, Intel MPI, Open MPI's mtl ofi. tcp carries tcp;ofi_rxm, too; sockets is the older
	// provider, which MPICH's own libfabric prefers.
	{name: "FI_TCP_IFACE", value: ifname},
	{name: "FI_SOCKETS_IFACE", value: ifname},
	// MPICH ch3:nemesis:tcp, which knows IPv4 only. It refuses to start with both an interface and a host name.
	{name: "MPIR_CVAR_NEMESIS_TCP_NETWORK_IFACE", unless: []string{"MPIR_CVAR_NETWORK_IFACE", "MPIR_CVAR_CH3_INTERFACE_HOSTNAME",
		"MPIR_CVAR_INTERFACE_HOSTNAME", "MPICH_NETWORK_IFACE", "MPICH_INTERFACE_HOSTNAME"}, only: pmi, value: ifname,
		applies: func(_ host.Network, c Choice) bool {
			return slices.ContainsFunc(c.Addrs, func(a netip.Prefix) bool { return a.Addr().Is4() })
		}},
	// NCCL takes a list of prefixes unless it begins with "=".
	{name: "NCCL_SOCKET_IFNAME", value: func(c Choice, _ job.Ports) string { return "=" + c.Name }},
	{name: "GLOO_SOCKET_IFNAME", value: ifname},
	{name: "HOROVOD_GLOO_IFACE", value: ifname},
}

// byPorts are those that name the range of ports. NCCL and Gloo have none.
var byPorts = []variable{
	{name: "OMPI_MCA_btl_tcp_port_min_v4", unless: []string{"OMPI_MCA_btl_tcp_port_range_v4"}, only: pmix, value: low},
	{name: "OMPI_MCA_btl_tcp_port_range_v4", unless: []string{"OMPI_MCA_btl_tcp_port_min_v4"}, only: pmix, value: count},
	{name: "OMPI_MCA_btl_tcp_port_min_v6", unless: []string{"OMPI_MCA_btl_tcp_port_range_v6"}, only: pmix, value: low},
	{name: "OMPI_MCA_btl_tcp_port_range_v6", unless: []string{"OMPI_MCA_btl_tcp_port_min_v6"}, only: pmix, value: count},
	{name: "UCX_TCP_PORT_RANGE", value: func(_ Choice, p job.Ports) string { return p.String() }},
	{name: "FI_TCP_PORT_LOW_RANGE", unless: []string{"FI_TCP_PORT_HIGH_RANGE"}, value: low},
	{name: "FI_TCP_PORT_HIGH_RANGE", unless: []string{"FI_TCP_PORT_LOW_RANGE"}, value: high},
	// libfabric's sockets provider has no range, and MPICH 4.3 and 5.0 prefer it to tcp.
	{name: "FI_PROVIDER", only: pmi, value: func(Choice, job.Ports) string { return "^sockets" }},
	{name: "MPIR_CVAR_CH3_PORT_RANGE", unless: []string{"MPIR_CVAR_PORTRANGE", "MPIR_CVAR_PORT_RANGE", "MPICH_PORT_RANGE"}, only: pmi,
		value: func(_ Choice, p job.Ports) string { return fmt.Sprintf("%d:%d", p.Low, p.High) }},
}

func ifname(c Choice, _ job.Ports) string { return c.Name }
func low(_ Choice, p job.Ports) string    { return strconv.Itoa(int(p.Low)) }
func high(_ Choice, p job.Ports) string   { return strconv.Itoa(int(p.High)) }
func count(_ Choice, p job.Ports) string  { return strconv.Itoa(p.Len()) }

// variablesOf are those that tell a rank's libraries the choice and the range, as far as there are any. set says whether
// the user or the container has given a variable. That one stays, and those of the same meaning are left out.
func variablesOf(n host.Network, c Choice, p job.Ports, speaks speech, set func(name string) bool) (env []string) {
	add := func(list []variable) {
		for _, v := range list {
			switch {
			case v.only != nothing && v.only != speaks, v.applies != nil && !v.applies(n, c):
			case set(v.name), slices.ContainsFunc(v.unless, set):
			default:
				env = append(env, v.name+"="+v.value(c, p))
			}
		}
	}
	if c.Name != "" {
		add(byInterface)
	}
	if !p.IsZero() {
		add(byPorts)
	}
	return env
}
