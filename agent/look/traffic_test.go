package look

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/agent/reap/proctree"
	"github.com/mpiup/mpiup/test/cost"
)

// What a connection of this process receives by recv(2) counts, and so does what it sends.
func TestTraffic(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	out, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	in, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	segments := uint32(0)
	sum := func() (n uint64) {
		all, err := Traffic()
		if err != nil {
			t.Fatal(err)
		}
		own, err := Own(proctree.Proc{Root: "/proc"}, []int{os.Getpid()}, all)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range own {
			n += s.Moved
			segments += s.Sent
		}
		return n
	}
	before := sum()
	const size = 100_000
	go func() { _, _ = out.Write(make([]byte, size)) }()
	if _, err := io.ReadFull(in, make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	if now := sum(); now < before+size {
		t.Errorf("%d bytes before and %d after %d were received", before, now, size)
	}
	if segments == 0 {
		t.Error("no segment was sent")
	}
	if own, err := Own(proctree.Proc{Root: "/proc"}, []int{os.Getpid()}, map[uint64]Socket{1: {Moved: 7}}); err != nil || len(own) != 0 {
		t.Errorf("a stranger's socket counts: %v, %v", own, err)
	}
}

func diag(kind uint16, body []byte) []byte {
	b := make([]byte, unix.NLMSG_HDRLEN, unix.NLMSG_HDRLEN+len(body))
	binary.NativeEndian.PutUint32(b, uint32(unix.NLMSG_HDRLEN+len(body)))
	binary.NativeEndian.PutUint16(b[4:], kind)
	return append(b, body...)
}

func FuzzTraffic(f *testing.F) {
	body := make([]byte, messageLen+4+256)
	binary.NativeEndian.PutUint32(body[inodeAt:], 42)
	binary.NativeEndian.PutUint16(body[messageLen:], 4+256)
	binary.NativeEndian.PutUint16(body[messageLen+2:], infoType)
	f.Add(append(diag(unix.SOCK_DIAG_BY_FAMILY, body), diag(unix.NLMSG_DONE, make([]byte, 4))...))
	f.Add(diag(unix.SOCK_DIAG_BY_FAMILY, body[:messageLen+3]))
	f.Add(diag(unix.NLMSG_ERROR, []byte{0xfe, 0xff, 0xff, 0xff}))
	f.Add([]byte{1, 0, 0, 0, 20})
	f.Fuzz(func(t *testing.T, b []byte) {
		defer cost.Watch(t, cost.Parser, len(b))()
		out := map[uint64]Socket{}
		if _, err := parseTraffic(b, out); err == nil && len(out) > len(b)/messageLen+1 {
			t.Errorf("%d sockets in %d bytes", len(out), len(b))
		}
	})
}
