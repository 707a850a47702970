package integration

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	wanted "github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/test/netns"
)

// socket is a line of test/mpi/sockets.c.
type socket struct {
	rank       int
	own, other netip.AddrPort // other: not valid of one that listens
}

func sockets(t *testing.T, text string) (list []socket) {
	t.Helper()
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		var s socket
		var err error
		if _, err = fmt.Sscanf(line, "rank %d", &s.rank); err == nil && len(f) > 4 {
			s.own, err = netip.ParseAddrPort(net.JoinHostPort(f[3], f[4]))
		}
		if err == nil && len(f) == 7 {
			s.other, err = netip.ParseAddrPort(net.JoinHostPort(f[5], f[6]))
		}
		if err != nil || len(f) != 5 && len(f) != 7 {
			t.Fatalf("%q is no socket: %v", line, err)
		}
		list = append(list, s)
	}
	return list
}

// onlyIn finds what is not in a network and a range of ports (any: 0). Some connection must lead to another host.
func onlyIn(list []socket, within netip.Prefix, ports wanted.Ports) (bad []string) {
	in := func(a netip.AddrPort) bool { return a.Port() >= ports.Low && a.Port() <= ports.High }
	inNet := func(a netip.AddrPort) bool { return within.Contains(a.Addr().Unmap()) }
	across := 0
	for _, s := range list {
		switch {
		case !s.other.IsValid():
			if !ports.IsZero() && !in(s.own) {
				bad = append(bad, fmt.Sprintf("rank %d listens on %s", s.rank, s.own))
			}
		case !inNet(s.own) || !inNet(s.other), !ports.IsZero() && !in(s.own) && !in(s.other):
			bad = append(bad, fmt.Sprintf("rank %d is connected from %s to %s", s.rank, s.own, s.other))
		case s.own.Addr() != s.other.Addr():
			across++
		}
	}
	if across == 0 {
		bad = append(bad, "no connection leads to another host")
	}
	return bad
}

// twoHomed is hosts w0 and w1 of two networks, with agents.
func twoHomed(t *testing.T, family netns.Family) *lab {
	t.Helper()
	l := hosted(t).apart(t, netns.Config{Hosts: []string{"w0", "w1"}, Family: family})
	if err := l.cluster.AddNetwork(t.Context(), "net1"); err != nil {
		t.Fatal(err)
	}
	for _, h := range l.cluster.Workers() {
		l.agent(t, h, container{})
	}
	return l
}

var (
	firstNet  = netip.MustParsePrefix("10.77.0.0/16")
	secondNet = netip.MustParsePrefix("10.78.0.0/16")
)

// In pods of two networks each library uses the one that was asked for, else the default route's, and the ports.
func TestNetworkOfMPI(t *testing.T) {
	t.Parallel()
	l := twoHomed(t, netns.IPv4)
	ompi, mpich := l.openMPI(t, "sockets"), l.program(t, "sockets")
	mpich5, err := l.compiled(filepath.Join(l.wheels(t), "mpicc"), "sockets")
	if err != nil {
		t.Fatal(err)
	}
	ucx := []string{"-x", "UCX_TLS=tcp,self"} // on one machine it would find shared memory
	ofi := []string{"-x", "MPIR_CVAR_CH4_NETMOD=ofi"}
	for i, lib := range []struct {
		name  string
		flags []string
		exe   string
	}{{"Open MPI", ompiFlags, ompi}, {"MPICH over UCX", ucx, mpich}, {"MPICH 5 over UCX", ucx, mpich5}, {"MPICH 5 over libfabric", ofi, mpich5}} {
		first := 18000 + 100*i // UCX searches for ever where others have taken all
		for _, c := range []struct {
			name, flags, ports, says string
			net                      netip.Prefix
		}{
			{"chosen", "", "", "MPI libraries use interface eth0 for TCP, since the default route leaves by it", firstNet},
			{"by name", "--net net1", fmt.Sprintf("%d-%d", first, first+3), "use interface net1 for TCP, since --net asks for net1", secondNet},
			{"by network", "--net 10.78.0.0/16", fmt.Sprintf("%d-%d", first+10, first+49), "since --net asks for 10.78.0.0/16", secondNet},
		} {
			t.Run(lib.name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				ports, err := wanted.ParsePorts(c.ports)
				if err != nil {
					t.Fatal(err)
				}
				args := append([]string{"-v", "-n", "4"}, strings.Fields(c.flags)...)
				if c.ports != "" {
					args = append(args, "--mpi-ports", c.ports)
				}
				r := l.run(t, job{hosts: "w0:2,w1:2", args: append(append(args, lib.flags...), lib.exe)})
				if r.Code != 0 {
					t.Fatalf("ended with %d\n%s", r.Code, r.Stderr)
				}
				if bad := onlyIn(sockets(t, r.Stdout), c.net, ports); len(bad) > 0 {
					t.Errorf("%s\nof\n%s", strings.Join(bad, "\n"), r.Stdout)
				}
				if strings.Count(r.Stderr, c.says) != 1 {
					t.Errorf("it does not say once %q:\n%s", c.says, r.Stderr)
				}
			})
		}
	}
	t.Run("the user's variable stays", func(t *testing.T) {
		t.Parallel()
		args := append([]string{"-n", "4", "--net", "net1", "-x", "OMPI_MCA_btl_tcp_if_include=eth0"}, append(ompiFlags, ompi)...)
		r := l.run(t, job{hosts: "w0:2,w1:2", args: args}).OK(t)
		if bad := onlyIn(sockets(t, r.Stdout), firstNet, wanted.Ports{}); len(bad) > 0 {
			t.Errorf("%s\nof\n%s", strings.Join(bad, "\n"), r.Stdout)
		}
	})
	t.Run("by a variable", func(t *testing.T) {
		t.Parallel()
		r := l.run(t, job{hosts: "w0:2,w1:2", env: []string{"MPIUP_NET=net1", "MPIUP_MPI_PORTS=18900-18999"}, args: append(ompiFlags, ompi)}).OK(t)
		if bad := onlyIn(sockets(t, r.Stdout), secondNet, wanted.Ports{Low: 18900, High: 18999}); len(bad) > 0 {
			t.Errorf("%s\nof\n%s", strings.Join(bad, "\n"), r.Stdout)
		}
	})
	t.Run("by a variable of mpirun's", func(t *testing.T) {
		t.Parallel()
		r := l.called(t, "mpirun", job{env: []string{"MPIUP_NET=net1", "MPIUP_MPI_PORTS=18800-18899"}},
			"-np", "4", "-H", "w0:2,w1:2", "--mca", "pml", "ob1", "--mca", "btl", "self,vader,tcp", ompi).OK(t)
		if bad := onlyIn(sockets(t, r.Stdout), secondNet, wanted.Ports{Low: 18800, High: 18899}); len(bad) > 0 {
			t.Errorf("%s\nof\n%s", strings.Join(bad, "\n"), r.Stdout)
		}
	})
	for _, c := range []struct{ name, flag, value, says string }{
		{"no such interface", "--net", "net7", "--net net7: there is no such interface here; there are lo (127.0.0.1/8"},
		{"no such network", "--net", "10.79.0.0/16", "--net 10.79.0.0/16: no interface here that is up has an address in it"},
		{"too few ports", "--mpi-ports", "18000-18000", "--mpi-ports 18000-18000 has fewer ports than there are ranks here, 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := l.run(t, job{hosts: "w0:2,w1:2", args: []string{c.flag, c.value, "true"}})
			if r.Code == 0 || !strings.Contains(r.Stderr, c.says) || !strings.Contains(r.Stderr, " on w") {
				t.Errorf("ended with %d and says, not %q:\n%s", r.Code, c.says, r.Stderr)
			}
		})
	}
}

// A file of Open MPI's that excludes interfaces stays, since Open MPI takes no other word beside it.
func TestOpenMPIsFileStays(t *testing.T) {
	t.Parallel()
	l := twoHomed(t, netns.IPv4)
	file := filepath.Join(l.folder(t), "mca-params.conf")
	if err := os.WriteFile(file, []byte("btl_tcp_if_exclude = lo,net1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-n", "4", "--net", "net1", "-x", "OMPI_MCA_mca_base_param_files=" + file}, append(ompiFlags, l.openMPI(t, "sockets"))...)
	r := l.run(t, job{hosts: "w0:2,w1:2", args: args})
	if bad := onlyIn(sockets(t, r.Stdout), firstNet, wanted.Ports{}); len(bad) > 0 {
		t.Errorf("%s\nof\n%s", strings.Join(bad, "\n"), r.Stdout)
	}
	if says := file + " sets btl_tcp_if_exclude, which stays"; !strings.Contains(r.Stderr, says) {
		t.Errorf("it does not say %q:\n%s", says, r.Stderr)
	}
}

func TestNetworkOfMPIIsIPv6(t *testing.T) {
	t.Parallel()
	l := twoHomed(t, netns.IPv6)
	ompi := l.openMPI(t, "sockets")
	for _, c := range []struct{ name, flags, net string }{
		{"chosen", "--mpi-ports 18000-18099", "fd77::/64"},
		{"by network", "--net fd78::/64 --mpi-ports 18000-18099", "fd78::/64"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := append(strings.Fields("-n 4 "+c.flags), append(ompiFlags, ompi)...)
			r := l.run(t, job{hosts: "w0:2,w1:2", args: args}).OK(t)
			if bad := onlyIn(sockets(t, r.Stdout), netip.MustParsePrefix(c.net), wanted.Ports{Low: 18000, High: 18099}); len(bad) > 0 {
				t.Errorf("%s\nof\n%s", strings.Join(bad, "\n"), r.Stdout)
			}
		})
	}
}
