package session

import (
	"net"
	"strconv"
	"testing"
	"testing/fstest"

	"github.com/mpiup/mpiup/internal/job"
)

// listening is a port that somebody listens on, and one below it that nobody does.
func listening(t *testing.T) uint16 {
	t.Helper()
	for range 50 {
		l, err := net.Listen("tcp", ":0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		p := uint16(l.Addr().(*net.TCPAddr).Port)
		if p > 1024 && free(p-1) && free(p-2) {
			return p
		}
	}
	t.Fatal("no port with two free ones below it")
	return 0
}

func TestReserveTakesTheLastFreePortsOfTheUsersRange(t *testing.T) {
	taken := listening(t)
	var tab reserved
	r := job.Ports{Low: taken - 2, High: taken}
	got := tab.Reserve("a", 2, r, true)
	if len(got) != 2 || got[0] != taken-1 || got[1] != taken-2 {
		t.Fatalf("%v of %v, where %d is taken", got, r, taken)
	}
	if got := tab.Reserve("b", 1, r, true); got != nil {
		t.Errorf("%v are another session's", got)
	}
	tab.Release("b")
	tab.Release("a")
	if got := tab.Reserve("b", 3, r, true); len(got) != 2 {
		t.Errorf("%v after the first has ended", got)
	}
}

// What is reserved can be listened on: the table holds nothing open.
func TestReservedPortsAreFree(t *testing.T) {
	var tab reserved
	list := tab.Reserve("a", 8, Usual(fstest.MapFS{}), false)
	if len(list) != 8 {
		t.Errorf("%v", list)
	}
	for _, p := range list {
		l, err := net.Listen("tcp", ":"+strconv.Itoa(int(p)))
		if err != nil {
			t.Error(err)
			continue
		}
		l.Close()
	}
}

func TestTwoSessionsNeverGetTheSamePort(t *testing.T) {
	var tab reserved
	seen := map[uint16]bool{}
	for s := range 20 {
		for _, p := range tab.Reserve(strconv.Itoa(s), 2, Usual(fstest.MapFS{}), false) {
			if seen[p] {
				t.Errorf("port %d twice", p)
			}
			seen[p] = true
		}
	}
	if len(seen) != 40 {
		t.Errorf("%d ports for 20 sessions", len(seen))
	}
}

func TestUsual(t *testing.T) {
	for _, tt := range []struct{ file, want string }{
		{"32768\t60999\n", "20000-29999"},
		{"15000 64000\n", "10000-14999"},
		{"25000 65535", "20000-24999"},
		{"1024 65535", "20000-29999"}, // nothing below: anywhere is as good
		{"", "20000-29999"},
		{"x", "20000-29999"},
	} {
		fs := fstest.MapFS{"proc/sys/net/ipv4/ip_local_port_range": {Data: []byte(tt.file)}}
		if got := Usual(fs).String(); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.file, got, tt.want)
		}
	}
	if got := Usual(fstest.MapFS{}).String(); got != "20000-29999" {
		t.Error(got)
	}
}
