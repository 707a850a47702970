package loopback

import (
	"maps"
	"net/netip"
	"slices"
	"testing"
	"testing/fstest"
)

// What a look at the sockets shows: port 20000 (4E20) is where ranks meet.
func TestWhoMeets(t *testing.T) {
	line := func(local, remote, state, inode string) string {
		return " 0: " + local + " " + remote + " " + state + " 00000000:00000000 00:00000000 00000000 0 0 " + inode + " 1 0\n"
	}
	const any, here, there, own = "00000000:0000", "0100000A", "0200000A", "0100007F"
	for _, tt := range []struct {
		name    string
		lines   string
		visited bool
		there   []uint64
		other   []uint64
		inside  int
	}{
		{"nothing", "", false, nil, nil, 0},
		{"rank 0 listens", line("00000000:4E20", any, "0A", "7"), true, []uint64{7}, nil, 0},
		{"connected", line(here+":D431", there+":4E20", "01", "7"), true, []uint64{7}, nil, 0},
		{"it was, a moment ago", line(here+":D431", there+":4E20", "06", "0"), true, nil, nil, 0},
		{"it tries in vain", line(here+":D431", there+":4E20", "02", "7"), false, nil, nil, 0},
		{"another port", line(here+":D431", there+":1F90", "01", "7"), false, nil, nil, 0},
		{"listens to other hosts", line(here+":1F90", any, "0A", "7"), false, nil, []uint64{7}, 0},
		{"listens for itself", line(own+":1F90", any, "0A", "7"), false, nil, nil, 0},
		{"Gloo where the host's name is 127.0.1.1", line("0101007F:1F90", any, "0A", "7"), false, nil, []uint64{7}, 0},
		{"talks with this host", line(own+":1F90", own+":D431", "01", "7") + line(own+":D431", own+":1F90", "01", "8"), false, nil, nil, 2},
	} {
		seen, err := FindMeeting(fstest.MapFS{"proc/net/tcp": {Data: []byte(tt.lines)}}, map[uint16]bool{20000: true})
		if err != nil || seen.Visited != tt.visited || !slices.Equal(slices.Sorted(maps.Keys(seen.There)), tt.there) ||
			!slices.Equal(slices.Sorted(maps.Keys(seen.Other)), tt.other) || len(seen.inside) != tt.inside {
			t.Errorf("%s: %+v, %v", tt.name, seen, err)
		}
	}
}

// Two processes that hold the two ends of a connection are a pair; one that talks with itself, or with somebody unknown, is none.
func TestPairs(t *testing.T) {
	end := func(local, remote string, inode uint64) Socket {
		return Socket{Local: netip.MustParseAddrPort(local), Remote: netip.MustParseAddrPort(remote), State: Established, Inode: inode}
	}
	m := Meeting{inside: []Socket{
		end("127.0.0.1:1", "127.0.0.1:2", 10), end("127.0.0.1:2", "127.0.0.1:1", 20),
		end("127.0.0.1:3", "127.0.0.1:4", 11), end("127.0.0.1:4", "127.0.0.1:3", 12),
		end("127.0.0.1:5", "127.0.0.1:6", 30),
	}}
	got := m.Pairs(map[uint64]int{10: 1, 20: 2, 11: 1, 12: 1, 30: 3})
	if slices.Sort(got); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("%v", got)
	}
}
