package loopback

import (
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

const heading = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"

func read(t *testing.T, host fs.FS) (list []Socket) {
	t.Helper()
	if err := EachSocket(host, func(s Socket) { list = append(list, s) }); err != nil {
		t.Fatal(err)
	}
	return list
}

// The lines are of a little-endian machine.
func TestEach(t *testing.T) {
	got := read(t, fstest.MapFS{
		"proc/net/tcp": {Data: []byte(heading +
			"   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12345 1 0000000000000000 100 0 0 10 0\n" +
			"   1: 0100000A:D431 0200000A:4E20 01 00000000:00000000 00:00000000 00000000  1000        0 777 1 0000000000000000 20 4 30 10 -1\n" +
			"   2: 0100000A:D432 0200000A:4E20 06 00000000:00000000 03:00001770 00000000     0        0 0 3 0000000000000000\n" +
			"garbage\n")},
		"proc/net/tcp6": {Data: []byte(heading +
			"   0: 00000000000000000000000000000000:4E20 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 9 1 0000000000000000 100 0 0 10 0\n" +
			"   1: 0000000000000000FFFF00000200000A:4E20 0000000000000000FFFF00000100000A:D431 01 00000000:00000000 00:00000000 00000000     0        0 10 1 0000000000000000 20 4 30 10 -1\n")},
	})
	at := netip.MustParseAddrPort
	want := []Socket{
		{at("127.0.0.1:8080"), at("0.0.0.0:0"), Listen, 0, 12345},
		{at("10.0.0.1:54321"), at("10.0.0.2:20000"), Established, 1000, 777},
		{at("10.0.0.1:54322"), at("10.0.0.2:20000"), TimeWait, 0, 0},
		{at("[::]:20000"), at("[::]:0"), Listen, 0, 9},
		{at("10.0.0.2:20000"), at("10.0.0.1:54321"), Established, 0, 10},
	}
	if d := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); d != "" {
		t.Error(d)
	}
}

func TestListsThatAreNotThere(t *testing.T) {
	if err := EachSocket(fstest.MapFS{}, func(Socket) {}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if got := read(t, fstest.MapFS{"proc/net/tcp": {Data: []byte(heading)}}); got != nil {
		t.Errorf("%v", got)
	}
	long := strings.Repeat("x\n", maxLines+2)
	if err := EachSocket(fstest.MapFS{"proc/net/tcp": {Data: []byte(long)}}, func(Socket) {}); !errors.Is(err, errTooLong) {
		t.Errorf("%v", err)
	}
}

// This kernel lists a listener and both ends of a connection, and the side that closed first once both are closed.
func TestThisKernel(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).AddrPort().Port()
	here, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	there, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	count := func() map[SocketState]int {
		states := map[SocketState]int{}
		for _, s := range read(t, os.DirFS("/")) {
			if s.Local.Port() == port || s.Remote.Port() == port {
				states[s.State]++
			}
		}
		return states
	}
	if got := count(); got[Listen] != 1 || got[Established] != 2 {
		t.Errorf("open: %v", got)
	}
	here.Close()
	there.Close()
	if got := count(); got[TimeWait] == 0 || got[Established] != 0 {
		t.Errorf("closed: %v", got)
	}
}
