package look

import (
	"fmt"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/job"
)

func TestJudge(t *testing.T) {
	const apart = 10 * time.Second
	base := Sample{CPU: time.Hour, IO: 1 << 30, Output: 7, Library: 3, Faults: 1000, Delay: time.Second, Traffic: map[uint64]uint64{1: 1 << 20, 2: 5}}
	with := func(f func(*Sample)) Sample { s := base; f(&s); return s }
	for _, tt := range []struct {
		name string
		now  Sample
		want Class
	}{
		{"nothing", base, Idle},
		{"a thread that looks at a clock", with(func(s *Sample) { s.CPU += 150 * time.Millisecond }), Idle},
		{"a poll now and then", with(func(s *Sample) { s.CPU += 300 * time.Millisecond }), Busy},
		{"a whole processor", with(func(s *Sample) { s.CPU += apart }), Busy},
		{"short of CPU, and ready to run", with(func(s *Sample) { s.Running = true }), Busy},
		{"children that ended elsewhere", with(func(s *Sample) { s.CPU = 0 }), Idle},
		{"output", with(func(s *Sample) { s.Output++ }), Works},
		{"a little I/O", with(func(s *Sample) { s.IO += 100 }), Idle},
		{"I/O", with(func(s *Sample) { s.IO += 1 << 20 }), Works},
		{"a few pages", with(func(s *Sample) { s.Faults += 8 }), Idle},
		{"a mapped file, or memory that is used anew", with(func(s *Sample) { s.Faults += 480 }), Works},
		{"a disk has answered", with(func(s *Sample) { s.Delay += 10 * time.Millisecond }), Works},
		{"recv", with(func(s *Sample) { s.Traffic = map[uint64]uint64{1: 2 << 20, 2: 5} }), Works},
		{"recv from a new connection", with(func(s *Sample) { s.Traffic = map[uint64]uint64{3: 1 << 20} }), Works},
		{"connections that were closed", with(func(s *Sample) { s.Traffic = map[uint64]uint64{} }), Idle},
		{"beats of hearts", with(func(s *Sample) { s.Traffic = map[uint64]uint64{1: 1<<20 + 300, 2: 305} }), Idle},
		{"a word to PMI", with(func(s *Sample) { s.Library++ }), Works},
		{"a GPU that works", with(func(s *Sample) { s.GPU = true }), Works},
	} {
		if got := Judge(base, tt.now, apart); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
	if got := Judge(base, with(func(s *Sample) { s.Faults += 7 }), time.Second); got != Works {
		t.Errorf("a hundred mapped pages in a second, which the kernel maps 16 at once: %d", got)
	}
	unseen := base
	unseen.Traffic = nil
	if got := Judge(unseen, base, apart); got != Busy {
		t.Errorf("sockets that nobody looked at before: %d", got)
	}
	if got := Judge(base, unseen, apart); got != Idle {
		t.Errorf("sockets that do not show any more: %d", got)
	}
}

func TestCount(t *testing.T) {
	before := map[int]Sample{0: {}, 1: {}, 2: {}, 3: {}, 9: {}}
	now := map[int]Sample{0: {Output: 1}, 1: {CPU: time.Minute}, 2: {Where: "poll"}, 3: {Where: "poll"}, 5: {}}
	got := Count(before, now, time.Minute)
	if text := fmt.Sprintf("%v %v %v %d %s %v", got.Works, got.Busy, got.Idle, len(got.Places), got.Places[0].Where, got.Places[0].IDs); text != "0 1 2-3 1 poll 2-3" {
		t.Error(text)
	}
	many := map[int]Sample{}
	for id := range 100 {
		many[id] = Sample{Where: fmt.Sprint(id)}
	}
	if got := Count(many, many, time.Minute); got.Idle.Len() != 100 || len(got.Places) != job.MaxPlaces {
		t.Errorf("%d places", len(got.Places))
	}
}
