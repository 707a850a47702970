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
	l := &apiv1.Launch{Job: &apiv1.Job{Size: 2, Meeting: &apiv1.Meeting{Watch: true, Tf: []string{"10.0.0.1:20010", "10.0.0.2:20011"}}}, Procs: []*apiv1.Proc{{}}, Apps: []*apiv1.App{{Argv: []string{"a"}}}}
	m := newMeeting(&Job{Launch: parsed(l)})
	m.at([]string{"MASTER_ADDR=10.0.0.1", "MASTER_PORT=20001", "JAX_COORDINATOR_ADDRESS=[fd00::1]:20002", "PET_RDZV_ENDPOINT=w0:20003",
		"JAX_COORDINATOR_PORT=x", "PET_MASTER_PORT=0", "HOROVOD_RANK=3"})
	got := slices.Sorted(maps.Keys(m.ports))
	if want := []uint16{20001, 20002, 20003, 20010, 20011}; !slices.Equal(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
	l.Job.Meeting.Watch = false
	unwatched := newMeeting(&Job{Launch: parsed(l)})
	if unwatched.at([]string{"MASTER_PORT=20001"}); unwatched != nil {
		t.Error("a job that nobody watches has a meeting")
	}
}

// Looks become rare, and end when nothing more is to be seen.
func TestLooksAtMeetingsBecomeRare(t *testing.T) {
	procs := []*apiv1.Proc{{Rank: 0}, {Rank: 1}}
	for _, tt := range []struct {
		name  string
		knows func(a *meeting)
		age   time.Duration
		want  time.Duration
	}{
		{"young", func(*meeting) {}, time.Second, meetingLoad},
		{"young, a framework", func(a *meeting) { a.frameworks = map[uint32]string{0: "torch"} }, time.Second, meetingLook},
		{"no framework", func(*meeting) {}, time.Hour, meetingNever},
		{"a framework", func(a *meeting) { a.frameworks = map[uint32]string{0: "torch"} }, time.Hour, meetingOld},
		{"some have come", func(a *meeting) { a.visited, a.met = true, idset.Of(0) }, time.Hour, meetingOld},
		{"all have", func(a *meeting) { a.met, a.elsewhere = idset.Of(0), idset.Of(1) }, time.Second, 0},
		{"nothing to read", func(a *meeting) { a.blind = true }, time.Second, 0},
	} {
		a := &meeting{job: &Job{Launch: parsed(&apiv1.Launch{Job: &apiv1.Job{}, Procs: procs})}}
		tt.knows(a)
		if got := a.next(tt.age); got != tt.want {
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
		a := meeting{ports: map[uint16]bool{20000: true}, frameworks: tt.known}
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
