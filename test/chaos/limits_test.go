package chaos

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mpiup/mpiup/test/credential"
	"github.com/mpiup/mpiup/test/lab"
	"golang.org/x/sys/unix"
)

// Faults of what hosts have too little of, and of strangers.

// filled writes a file on the host that is hit until nothing fits any more.
func filled(dir string) func(k *cell) func() {
	return func(k *cell) func() {
		path := fmt.Sprintf("/proc/%d/root%s/full", k.c.Pid(hit), dir)
		f, err := os.Create(path)
		if err != nil {
			k.t.Fatal(err)
		}
		for chunk := make([]byte, 64<<10); err == nil; {
			_, err = f.Write(chunk)
		}
		f.Close()
		return func() {
			if err := os.Remove(path); err != nil {
				k.t.Error(err)
			}
		}
	}
}

// undone calls undo, whose error fails the test.
func (k *cell) undone(undo func() error, err error) func() {
	if err != nil {
		k.t.Fatal(err)
	}
	return func() {
		if err := undo(); err != nil {
			k.t.Error(err)
		}
	}
}

// fewDescriptors leaves the agent that is hit two descriptors more than it has.
func fewDescriptors(k *cell) func() {
	pid := k.agents[hit].Cmd.Process.Pid
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		k.t.Fatal(err)
	}
	taken := map[int]bool{}
	for _, fd := range open {
		n, _ := strconv.Atoi(fd.Name())
		taken[n] = true
	}
	end, free := 0, 0 // no descriptor is end or more
	for ; free < 2; end++ {
		if !taken[end] {
			free++
		}
	}
	var old unix.Rlimit
	err = unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &old)
	if err == nil {
		err = unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(end), Max: old.Max}, nil)
	}
	return k.undone(func() error { return unix.Prlimit(pid, unix.RLIMIT_NOFILE, &old, nil) }, err)
}

// spinning has as many processes as the machine has cores, twice, do nothing on the host that is hit.
func spinning(k *cell) func() {
	var all []*lab.Process
	for range 4 {
		p, err := lab.Start(k.c.Command(context.Background(), hit, "sh", "-c", "while :; do :; done"))
		if err != nil {
			k.t.Fatal(err)
		}
		all = append(all, p)
	}
	k.lasts(4 * time.Second)
	return func() {
		for _, p := range all {
			p.Signal(k.t, syscall.SIGKILL)
			<-p.Done
		}
	}
}

// leaf writes a new certificate into the cell's --tls-dir, as a mounted Secret changes: by renaming.
func (k *cell) leaf(ca credential.Authority, role string) {
	k.t.Helper()
	uri := credential.Must(url.Parse("mpiup://team/" + role + "/x"))
	made := ca.Dir(k.t, ca.Issue(x509.Certificate{Subject: pkix.Name{CommonName: "leaf"}, URIs: []*url.URL{uri}}))
	dir := filepath.Join(k.dir, role)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		k.t.Fatal(err)
	}
	for _, name := range []string{"tls.crt", "tls.key", "ca.crt"} {
		b, err := os.ReadFile(filepath.Join(made, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name+".new"), b, 0o600)
		}
		if err == nil {
			err = os.Rename(filepath.Join(dir, name+".new"), filepath.Join(dir, name))
		}
		if err != nil {
			k.t.Fatal(err)
		}
	}
}

// certified has agents and launcher prove themselves by certificates.
func certified(k *cell) {
	forwarded(k)
	k.ca = credential.NewAuthority("ca")
	k.leaf(k.ca, "agent")
	k.leaf(k.ca, "launcher")
	k.tls = true
}

// renewed replaces both certificates and then breaks every connection.
func renewed(k *cell) func() {
	k.leaf(k.ca, "agent")
	k.leaf(k.ca, "launcher")
	for _, f := range k.forwards {
		f.Reset()
	}
	return nil
}

// ports are the addresses at which something listens on the host that is hit.
func (k *cell) ports() (out []netip.AddrPort) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/tcp", k.c.Pid(hit)))
	if err != nil {
		k.t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 4 || f[3] != "0A" {
			continue
		}
		addr, port, _ := strings.Cut(f[1], ":")
		n, _ := strconv.ParseUint(port, 16, 16)
		a, err := hex.DecodeString(addr) // in the machine's order, which is little-endian wherever this runs
		if err != nil || len(a) != 4 {
			k.t.Fatalf("/proc/net/tcp: %q", line)
		}
		ip := netip.AddrFrom4([4]byte{a[3], a[2], a[1], a[0]})
		if ip.IsUnspecified() {
			ip = k.c.Addr(hit)
		}
		out = append(out, netip.AddrPortFrom(ip, uint16(n)))
	}
	return append(out, netip.AddrPortFrom(k.c.Addr(hit), agentPort))
}

// strangers connect to every port of the host that is hit: some say nothing, the others what is none of any protocol.
func strangers(k *cell) func() {
	var conns []net.Conn
	for _, at := range k.ports() {
		for i := range 40 {
			conn, err := k.c.Dial(k.t.Context(), hit, "tcp", at.String())
			if err != nil {
				continue // a port that was closed meanwhile, or a server that has enough of them
			}
			conns = append(conns, conn)
			if i%2 == 0 {
				garbage := make([]byte, 1+i*50)
				_, _ = rand.Read(garbage)  // it never fails
				_, _ = conn.Write(garbage) // it may be closed already
			}
		}
	}
	k.lasts(time.Second)
	return func() {
		for _, c := range conns {
			c.Close()
		}
	}
}

// crowding is held by a cell with 10,000 connections, half of this process's descriptors.
var crowding sync.Mutex

// crowd opens 10,000 connections to the agent that is hit and keeps them.
func crowd(k *cell) func() {
	crowding.Lock()
	var conns []net.Conn
	at := netip.AddrPortFrom(k.c.Addr(hit), agentPort).String()
	for range 10_000 {
		ctx, cancel := context.WithTimeout(k.t.Context(), 100*time.Millisecond)
		conn, err := k.c.Dial(ctx, second, "tcp", at)
		cancel()
		if err == nil { // a full queue of connections is what this is about
			conns = append(conns, conn)
		}
	}
	k.t.Logf("%d connections", len(conns))
	k.lasts(time.Second)
	return func() {
		for _, c := range conns {
			c.Close()
		}
		crowding.Unlock()
	}
}
