package netns

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Numbers of addresses: hosts count from 1; forwarders have 10.77.254.x; the switch itself
// (DNS) the last.
const (
	firstProxy  = 254 * 256
	switchIndex = 255*256 + 254
)

// addressesOf are the addresses with that number: 10.77.n/16 and fd77::n/64. Numbers of hosts
// are spread so that no address ends in .0 or .255.
func addressesOf(f Family, number int) []netip.Addr {
	n := number
	if n < firstProxy {
		n = (number-1)/250*256 + (number-1)%250 + 1
	}
	v6 := netip.MustParseAddr("fd77::").As16()
	binary.BigEndian.PutUint16(v6[14:], uint16(n))
	var out []netip.Addr
	if f != IPv6 {
		out = append(out, netip.AddrFrom4([4]byte{10, 77, byte(n >> 8), byte(n)}))
	}
	if f != IPv4 {
		out = append(out, netip.AddrFrom16(v6))
	}
	return out
}

// writeFiles makes every host's /etc/hosts and /etc/resolv.conf.
func (c *Cluster) writeFiles() error {
	var all strings.Builder
	for _, h := range c.hosts {
		for _, a := range h.addresses() {
			fmt.Fprintf(&all, "%s %s\n", a, h.name)
		}
	}
	for _, h := range c.hosts {
		text := "127.0.0.1 localhost\n::1 localhost ip6-localhost\n"
		resolv := "# no name server\n"
		if c.cfg.DNS {
			for _, a := range h.addresses() { // as kubelet writes it
				text += fmt.Sprintf("%s\t%s\t%s\n", a, c.FQDN(h.name), h.name)
			}
			resolv = c.resolvConf()
		} else {
			text += all.String()
		}
		if err := os.Mkdir(c.Dir(h.name), 0o755); err != nil {
			return err
		}
		for name, s := range map[string]string{"hosts": text, "resolv.conf": resolv} {
			if err := os.WriteFile(filepath.Join(c.Dir(h.name), name), []byte(s), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// resolvConf is what kubelet gives pods with dnsPolicy ClusterFirst, and the MPI Operator's
// search entry for the job.
func (c *Cluster) resolvConf() string {
	search := []string{c.cfg.Domain}
	for d := c.cfg.Domain; strings.Contains(d, ".svc."); {
		_, d, _ = strings.Cut(d, ".")
		search = append(search, d)
	}
	if _, zone, ok := strings.Cut(c.cfg.Domain, ".svc."); ok {
		search = append(search, zone)
	}
	server := addressesOf(c.cfg.Family, switchIndex)[0]
	return fmt.Sprintf("search %s\nnameserver %s\noptions ndots:5\n", strings.Join(search, " "), server)
}

// makeSwitch makes the namespace that the bridge lives in.
func (c *Cluster) makeSwitch() error {
	return onThread(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return os.NewSyscallError("unshare", err)
		}
		c.sw.net, err = openNS("net")
		return err
	})
}

// plug makes the bridge and a cable to every host, in one call of ip.
func (c *Cluster) plug(ctx context.Context) error {
	var b strings.Builder
	b.WriteString("link set lo up\nlink add br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0\nlink set br0 up\n")
	for _, a := range addressesOf(c.cfg.Family, switchIndex) {
		fmt.Fprintf(&b, "addr add %s dev br0%s\n", prefixOf(a), nodad(a))
	}
	for _, h := range c.hosts {
		v := h.port()
		fmt.Fprintf(&b, "link add %s type veth peer name eth0 netns /proc/%d/fd/%d\n", v, os.Getpid(), h.ns.net.Fd())
		fmt.Fprintf(&b, "link set %s addrgenmode none\nlink set %s master br0\nlink set %s up\n", v, v, v)
	}
	return c.ip(ctx, c.sw, b.String())
}

// port is the name of the bridge's port for the host.
func (h *host) port() string { return "v" + strconv.Itoa(h.index) }

func prefixOf(a netip.Addr) netip.Prefix {
	if a.Is4() {
		return netip.PrefixFrom(a, 16)
	}
	return netip.PrefixFrom(a, 64)
}

// nodad: an address of IPv6 would be of no use for a second while it is probed for a twin.
func nodad(a netip.Addr) string {
	if a.Is4() {
		return ""
	}
	return " nodad"
}

// ip runs lines of iproute2 commands in a network namespace.
func (c *Cluster) ip(ctx context.Context, ns namespaces, lines string) error {
	cmd := exec.CommandContext(ctx, "ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(lines)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	err := namespaces{net: ns.net}.within(cmd.Start)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return fmt.Errorf("ip: %w: %s", err, strings.TrimSpace(out.String()))
	}
	return nil
}

// setUpNetwork gives lo and eth0 what they need. IPv4 alone needs no process.
func (h *host) setUpNetwork() error {
	addrs := h.addresses()
	if h.cluster.cfg.Family != IPv4 {
		lines := "link set lo up\nlink set eth0 addrgenmode none\nlink set eth0 up\n"
		for _, a := range addrs {
			lines += fmt.Sprintf("addr add %s dev eth0%s\n", prefixOf(a), nodad(a))
		}
		return h.cluster.ip(context.Background(), h.ns, lines)
	}
	return namespaces{net: h.ns.net}.within(func() error {
		if err := interfaceUp("lo", netip.Addr{}); err != nil {
			return err
		}
		return interfaceUp("eth0", addrs[0])
	})
}

// interfaceUp sets an IPv4 address, if valid, and the interface up (netdevice(7)).
func interfaceUp(name string, addr netip.Addr) error {
	if addr.IsValid() {
		a, mask := addr.As4(), [4]byte{255, 255, 0, 0}
		if err := ifioctl(name, unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(a[:]) }); err != nil {
			return err
		}
		if err := ifioctl(name, unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr(mask[:]) }); err != nil {
			return err
		}
	}
	return setUp(name, true)
}

func setUp(name string, up bool) error {
	return ifioctl(name, unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error {
		if up {
			r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
		}
		return nil
	})
}

func ifioctl(name string, request uintptr, fill func(*unix.Ifreq) error) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	r, err := unix.NewIfreq(name)
	if err == nil {
		err = fill(r)
	}
	if err != nil {
		return fmt.Errorf("interface %s: %w", name, err)
	}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(r)))
	if errno != 0 {
		return fmt.Errorf("interface %s: ioctl %#x: %w", name, request, errno)
	}
	return nil
}

// makeRoomForNeighbours raises the machine's limit on neighbour entries, which is one for all
// namespaces (arp(7), gc_thresh): hosts times hosts. It is not lowered again, as another
// cluster may need it by then.
func makeRoomForNeighbours(hosts int) error {
	want := 4*hosts*hosts + 1024
	for _, t := range []struct {
		name string
		want int
	}{{"gc_thresh3", want}, {"gc_thresh2", want / 2}, {"gc_thresh1", want / 4}} {
		path := "/proc/sys/net/ipv4/neigh/default/" + t.name
		b, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			return nil // only the first network namespace has it
		}
		if err != nil {
			return err
		}
		if have, _ := strconv.Atoi(strings.TrimSpace(string(b))); have >= t.want {
			continue
		}
		if err := os.WriteFile(path, []byte(strconv.Itoa(t.want)), 0); err != nil && hosts > 30 {
			return err
		}
	}
	return nil
}
