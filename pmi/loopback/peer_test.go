package loopback

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/mpiup/mpiup/test/cost"
	"github.com/mpiup/mpiup/test/need"
	"golang.org/x/sys/unix"
)

// loop is a connection over loopback: what was accepted, and what connected.
func loop(t testing.TB, network, server string) (accepted, dialled net.Conn) {
	t.Helper()
	l, err := net.Listen(network, server)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if dialled, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialled.Close() })
	if accepted, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { accepted.Close() })
	return accepted, dialled
}

// inodeOf is what the process that has a socket open sees of it.
func inodeOf(t testing.TB, c net.Conn) uint64 {
	t.Helper()
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if e := raw.Control(func(fd uintptr) { err = unix.Fstat(int(fd), &st) }); e != nil || err != nil {
		t.Fatal(e, err)
	}
	return st.Ino
}

func TestPeerIsTheOtherEnd(t *testing.T) {
	for _, server := range []string{"127.0.0.1:0", "[::1]:0"} {
		accepted, dialled := loop(t, "tcp", server)
		want := Peer{UID: uint32(os.Getuid()), Inode: inodeOf(t, dialled)}
		theirs, ours := addrPort(accepted.RemoteAddr()), addrPort(accepted.LocalAddr())
		if p, err := PeerOf(accepted); err != nil || p != want {
			t.Errorf("%s: %+v %v, want %+v", server, p, err, want)
		}
		if p, err := diagnose(theirs, ours); err != nil || p != want {
			t.Errorf("%s: diagnosed %+v %v, want %+v", server, p, err, want)
		}
		if p, err := listed(os.DirFS("/"), theirs, ours); err != nil || p != want {
			t.Errorf("%s: listed %+v %v, want %+v", server, p, err, want)
		}
	}
}

// A client may reach an IPv4 port through an IPv6 socket.
func TestPeerWithAnIPv6SocketOfAnIPv4Connection(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	to := &unix.SockaddrInet6{Port: l.Addr().(*net.TCPAddr).Port, Addr: netip.MustParseAddr("::ffff:127.0.0.1").As16()}
	if err := unix.Connect(fd, to); err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		t.Fatal(err)
	}
	want := Peer{UID: uint32(os.Getuid()), Inode: st.Ino}
	theirs, ours := addrPort(accepted.RemoteAddr()), addrPort(accepted.LocalAddr())
	if p, err := diagnose(theirs, ours); err != nil || p != want {
		t.Errorf("%+v %v, want %+v", p, err, want)
	}
	if p, err := listed(os.DirFS("/"), theirs, ours); err != nil || p != want {
		t.Errorf("%+v %v, want %+v", p, err, want)
	}
}

// A listening socket is found by the kernel for whoever was at its address, and one that was closed
// has nobody.
func TestPeerThatIsGone(t *testing.T) {
	accepted, dialled := loop(t, "tcp4", "127.0.0.1:0")
	theirs, ours := addrPort(accepted.RemoteAddr()), addrPort(accepted.LocalAddr())
	dialled.Close()
	if p, err := PeerOf(accepted); err == nil || !strings.Contains(err.Error(), "not on this host, or closed") {
		t.Errorf("%+v, %v", p, err)
	}
	accepted.Close()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if p, err := diagnose(addrPort(l.Addr()), ours); !errors.Is(err, errNoSocket) {
		t.Errorf("a listener at %v is %+v, %v", theirs, p, err)
	}
	left, right := net.Pipe()
	defer left.Close()
	defer right.Close()
	if _, err := PeerOf(left); err == nil {
		t.Error("a pipe has a peer")
	}
}

// A connection with the same addresses and ports in another network namespace is not this one.
func TestPeerInAnotherNetworkNamespace(t *testing.T) {
	need.Root(t)
	var accepted net.Conn
	err := elsewhere(func() error {
		conn, dialled := loop(t, "tcp4", "127.0.0.1:0")
		if p, err := PeerOf(conn); err != nil || p.Inode != inodeOf(t, dialled) {
			return fmt.Errorf("there it is %+v, %w", p, err)
		}
		accepted = conn
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := PeerOf(accepted); err == nil {
		t.Errorf("here it is %+v", p)
	}
}

// elsewhere runs f in a new network namespace, on a thread that ends afterwards. That is never the
// process's first one, which cannot end and whose namespace /proc/self shows.
func elsewhere(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			done <- elsewhere(f)
			runtime.UnlockOSThread()
			return
		}
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			err = up()
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

// up brings the loopback device of this thread's network namespace up.
func up() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req)
}

const procTCP = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1 0 100 0 0 10 0
   1: 0100007F:1F90 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 12 1 0 20 4 30 10 -1
   2: 0100007F:D431 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 13 1 0 20 4 30 10 -1
   3: 0100007F:D436 0100007F:1F90 06 00000000:00000000 03:00000A10 00000000     0        0 0 3 0000000000000000
garbage
   4: 0100007F:D432
`

const procTCP6 = `  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000000000000000000001000000:D433 00000000000000000000000001000000:1F90 01 00000000:00000000 00:00000000 00000000  1001        0 14 1 0
   1: 0000000000000000FFFF00000100007F:D434 0000000000000000FFFF00000100007F:1F90 01 00000000:00000000 00:00000000 00000000  1002        0 15 1 0
`

func TestListedSockets(t *testing.T) {
	proc := fstest.MapFS{"proc/net/tcp": {Data: []byte(procTCP)}, "proc/net/tcp6": {Data: []byte(procTCP6)}}
	for _, tt := range []struct {
		name, local, remote string
		want                Peer
	}{
		{"IPv4", "127.0.0.1:54321", "127.0.0.1:8080", Peer{1000, 13}},
		{"IPv6", "[::1]:54323", "[::1]:8080", Peer{1001, 14}},
		{"IPv4 through an IPv6 socket", "127.0.0.1:54324", "127.0.0.1:8080", Peer{1002, 15}},
		{"not here", "127.0.0.1:54399", "127.0.0.1:8080", Peer{}},
		{"other port of ours", "127.0.0.1:54321", "127.0.0.1:8081", Peer{}},
		{"nobody's any more", "127.0.0.1:54326", "127.0.0.1:8080", Peer{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := listed(proc, netip.MustParseAddrPort(tt.local), netip.MustParseAddrPort(tt.remote))
			if p != tt.want || (err == nil) != (tt.want != Peer{}) {
				t.Errorf("%+v, %v", p, err)
			}
		})
	}
	_, err := listed(fstest.MapFS{}, netip.MustParseAddrPort("127.0.0.1:1"), netip.MustParseAddrPort("127.0.0.1:2"))
	if err == nil || !strings.Contains(err.Error(), "whose the connection from 127.0.0.1:1 is") {
		t.Errorf("in nothing: %v", err)
	}
}

// What is asked and answered, on a little-endian machine (Linux 6.1, amd64).
func TestDiagnosisOnTheWire(t *testing.T) {
	local, remote := netip.MustParseAddrPort("127.0.0.1:54321"), netip.MustParseAddrPort("127.0.0.1:8080")
	zeros := strings.Repeat("00", 12)
	id := "d431" + "1f90" + "7f000001" + zeros + "7f000001" + zeros + "00000000"
	request := "48000000" + "1400" + "0100" + "01000000" + "00000000" + "02060000" + "ffffffff" + id + "ffffffff" + "ffffffff"
	if got := hex.EncodeToString(diagRequest(local, remote)); got != request {
		t.Errorf("request\n%s, want\n%s", got, request)
	}
	answer := func(id, inode string) string {
		return "58000000" + "1400" + "0000" + "01000000" + "00000000" + "02010000" + id + "0100000000000000" +
			"00000000" + "00000000" + "00000000" + "e8030000" + inode
	}
	listener := "d431" + "0000" + "7f000001" + zeros + "00000000" + zeros + "00000000"
	for _, tt := range []struct {
		name, answer string
		want         Peer
		err          error
	}{
		{"found", answer(id, "0d000000"), Peer{1000, 13}, nil},
		{"a listener", answer(listener, "0d000000"), Peer{}, errNoSocket},
		{"ended", answer(id, "00000000"), Peer{}, errNoSocket},
		{"none", "24000000" + "0200" + "0000" + "01000000" + "00000000" + "feffffff" + strings.Repeat("00", 16), Peer{}, unix.ENOENT},
	} {
		b, err := hex.DecodeString(tt.answer)
		if err != nil {
			t.Fatal(err)
		}
		if p, err := diagAnswer(b, local, remote); p != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s: %+v, %v", tt.name, p, err)
		}
		for n := range b {
			if p, err := diagAnswer(b[:n], local, remote); err == nil {
				t.Errorf("%s cut at %d: %+v", tt.name, n, p)
			}
		}
	}
}

func FuzzListed(f *testing.F) {
	f.Add(procTCP)
	f.Add(procTCP6)
	local, remote := netip.MustParseAddrPort("127.0.0.1:54321"), netip.MustParseAddrPort("127.0.0.1:8080")
	f.Fuzz(func(t *testing.T, text string) {
		defer cost.Watch(t, cost.Parser, len(text))()
		if p, err := listed(fstest.MapFS{"proc/net/tcp": {Data: []byte(text)}}, local, remote); err == nil && p.Inode == 0 {
			t.Error(p)
		}
	})
}

func FuzzDiagAnswer(f *testing.F) {
	local, remote := netip.MustParseAddrPort("127.0.0.1:54321"), netip.MustParseAddrPort("127.0.0.1:8080")
	f.Add(diagRequest(local, remote))
	f.Fuzz(func(t *testing.T, b []byte) {
		defer cost.Watch(t, cost.Parser, len(b))()
		if p, err := diagAnswer(b, local, remote); err == nil && p.Inode == 0 {
			t.Error(p)
		}
	})
}

func BenchmarkPeer(b *testing.B) {
	accepted, _ := loop(b, "tcp4", "127.0.0.1:0")
	theirs, ours := addrPort(accepted.RemoteAddr()), addrPort(accepted.LocalAddr())
	for name, find := range map[string]func() (Peer, error){
		"diagnosed": func() (Peer, error) { return diagnose(theirs, ours) },
		"listed":    func() (Peer, error) { return listed(os.DirFS("/"), theirs, ours) },
	} {
		b.Run(fmt.Sprint(name), func(b *testing.B) {
			for b.Loop() {
				if _, err := find(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
