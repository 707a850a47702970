package ranks

import (
	"maps"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
)

// Where ranks meet is by the variables that they have, whoever set them.
func TestWhereRanksMeet(t *testing.T) {
	st := &Job{Launch: parsed(&apiv1.Launch{Job: &apiv1.Job{Meeting: &apiv1.Meeting{Watch: true, Tf: []string{"10.0.0.1:20010", "10.0.0.2:20011"}}}})}
	st.meetsAt([]string{"MASTER_ADDR=10.0.0.1", "MASTER_PORT=20001", "JAX_COORDINATOR_ADDRESS=[fd00::1]:20002", "PET_RDZV_ENDPOINT=w0:20003",
		"JAX_COORDINATOR_PORT=x", "PET_MASTER_PORT=0", "HOROVOD_RANK=3"})
	got := slices.Sorted(maps.Keys(st.meets.ports))
	if want := []uint16{20001, 20002, 20003, 20010, 20011}; !slices.Equal(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
	unwatched := &Job{Launch: parsed(&apiv1.Launch{Job: &apiv1.Job{Meeting: &apiv1.Meeting{}}})}
	if unwatched.meetsAt([]string{"MASTER_PORT=20001"}); unwatched.meets.ports != nil {
		t.Error("ports of a job that nobody watches")
	}
}

// What a look at the sockets shows: port 20000 (4E20) is where ranks meet.
func TestMeetingShowsInSockets(t *testing.T) {
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
		a := attendance{ports: map[uint16]bool{20000: true}}
		seen, err := a.meeting(fstest.MapFS{"proc/net/tcp": {Data: []byte(tt.lines)}})
		if err != nil || a.visited != tt.visited || !slices.Equal(slices.Sorted(maps.Keys(seen.there)), tt.there) ||
			!slices.Equal(slices.Sorted(maps.Keys(seen.other)), tt.other) || len(seen.inside) != tt.inside {
			t.Errorf("%s: %+v, visited %v, %v", tt.name, seen, a.visited, err)
		}
	}
}

// Looks become rare, and end when nothing more is to be seen.
func TestLooksAtMeetingsBecomeRare(t *testing.T) {
	procs := []*apiv1.Proc{{Rank: 0}, {Rank: 1}}
	for _, tt := range []struct {
		name  string
		knows func(a *attendance)
		age   time.Duration
		want  time.Duration
	}{
		{"young", func(*attendance) {}, time.Second, meetingLoad},
		{"young, a framework", func(a *attendance) { a.frameworks = map[uint32]string{0: "torch"} }, time.Second, meetingLook},
		{"no framework", func(*attendance) {}, time.Hour, meetingNever},
		{"a framework", func(a *attendance) { a.frameworks = map[uint32]string{0: "torch"} }, time.Hour, meetingOld},
		{"some have come", func(a *attendance) { a.visited, a.met = true, idset.Of(0) }, time.Hour, meetingOld},
		{"all have", func(a *attendance) { a.met, a.elsewhere = idset.Of(0), idset.Of(1) }, time.Second, 0},
		{"nothing to read", func(a *attendance) { a.blind = true }, time.Second, 0},
	} {
		st := &Job{Launch: parsed(&apiv1.Launch{Job: &apiv1.Job{}, Procs: procs})}
		tt.knows(&st.meets)
		if got := st.nextMeetingLook(tt.age); got != tt.want {
			t.Errorf("%s: %v, not %v", tt.name, got, tt.want)
		}
	}
}

// The lists of sockets are read seldom where no framework is loaded, since that is dear on a machine of many connections.
func TestSocketsAreReadSeldomWithoutAFramework(t *testing.T) {
	host := fstest.MapFS{"proc/net/tcp": {Data: []byte(
		" 0: 0100000A:4E20 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 7 1 0\n")}}
	start := time.Now()
	for _, tt := range []struct {
		name  string
		known map[uint32]string
		looks []time.Duration
		reads bool
	}{
		{"first look", nil, []time.Duration{0}, false},
		{"young", nil, []time.Duration{0, time.Second}, false},
		{"after a while", nil, []time.Duration{0, time.Second, strangerRead}, true},
		{"a framework", map[uint32]string{0: "torch"}, []time.Duration{0}, true},
		{"a framework that shards", map[uint32]string{0: ""}, []time.Duration{0}, true},
	} {
		a := attendance{ports: map[uint16]bool{20000: true}, frameworks: tt.known}
		for _, at := range tt.looks {
			a.looked = start.Add(at)
			if _, err := a.see(host); err != nil {
				t.Fatal(err)
			}
		}
		if a.visited != tt.reads {
			t.Errorf("%s: the lists are read: %v", tt.name, a.visited)
		}
	}
}
