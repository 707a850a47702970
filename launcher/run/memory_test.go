package run

import (
	"strings"
	"testing"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/run/model"
)

// What a host used of its memory when it was heard last is why it was lost, if that was near its limit, and no other's.
func TestLostForMemory(t *testing.T) {
	const mib = 1 << 20
	type look struct {
		at   time.Duration
		used uint64
	}
	for _, tt := range []struct {
		name   string
		looks  []look
		limit  uint64
		lost   time.Duration
		silent bool
		want   string // in the verdict; "": no word of memory
	}{
		{name: "near", looks: []look{{0, 200}, {12 * time.Second, 2367}}, limit: 3000, lost: 20 * time.Second,
			want: "probably the container's memory, 2,367 of 3,000 MiB eight seconds before"},
		{name: "a moment before", looks: []look{{20 * time.Second, 2990}}, limit: 3000, lost: 20*time.Second + 100*time.Millisecond,
			want: "probably the container's memory, 2,990 of 3,000 MiB less than a second before"},
		{name: "it grew fast", looks: []look{{18 * time.Second, 200}, {19 * time.Second, 1400}}, limit: 3000, lost: 20 * time.Second,
			want: "probably the container's memory, 1,400 of 3,000 MiB one second before"},
		{name: "it had grown, and no longer did", looks: []look{{10 * time.Second, 200}, {11 * time.Second, 2000}}, limit: 3000, lost: 20 * time.Second},
		{name: "far from it", looks: []look{{0, 200}, {19 * time.Second, 300}}, limit: 3000, lost: 20 * time.Second},
		{name: "a look of long before", looks: []look{{1 * time.Second, 2990}}, limit: 3000, lost: 50 * time.Second},
		{name: "no limit", looks: []look{{19 * time.Second, 2990}}, lost: 20 * time.Second},
		{name: "nothing was heard of it", looks: []look{{19 * time.Second, 2990}}, limit: 3000, lost: 20 * time.Second, silent: true,
			want: "its container used 2,990 of 3,000 MiB one second before"},
		{name: "no look", lost: 20 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := playing(t, Config{Wishes: Wishes{PMI: job.PMI1, Apps: []job.App{{Argv: []string{"a.out"}, N: 2}}}}, []job.Host{{Name: "w0", Slots: 1}, {Name: "w1", Slots: 1}})
			now := Now{Wall: epoch, Clock: time.Millisecond}
			p.Start(now)
			tell := func(h int, at time.Duration, f *apiv1.Frame) {
				now.Clock = max(at, now.Clock)
				p.Step(now, Frame{Host: h, Frame: f, At: at})
			}
			for id := range 2 {
				tell(id, 0, (&apiv1.Started{Rank: uint32(id), Pid: 7}).Frame())
			}
			for _, l := range tt.looks {
				tell(1, l.at, (&apiv1.ContainerMemory{Used: l.used * mib, Limit: tt.limit * mib}).Frame())
				tell(0, l.at, (&apiv1.ContainerMemory{Used: 99 * mib, Limit: 100 * mib}).Frame()) // of another host
			}
			now.Clock = tt.lost + time.Second
			p.Step(now, Ended{Host: 1, Lost: &model.Lost{Why: "its agent is gone", Since: tt.lost, Silent: tt.silent}})
			text := strings.Join(p.Verdict().Explain(), "\n")
			if tt.want == "" && strings.Contains(text, "MiB") || !strings.Contains(text, tt.want) {
				t.Errorf("%q is not in\n%s", tt.want, text)
			}
		})
	}
}

// A host speaks of its own processes, and of a bounded number.
func TestMemoryOfOthers(t *testing.T) {
	p := playing(t, Config{Wishes: Wishes{PMI: job.PMI1, Apps: []job.App{{Argv: []string{"a.out"}, N: 2}}}}, []job.Host{{Name: "w0", Slots: 1}, {Name: "w1", Slots: 1}})
	told := &apiv1.ContainerMemory{Kills: 1 << 60, KilledMs: 1 << 63}
	for id := range 100 {
		told.Victims = append(told.Victims, &apiv1.MemoryVictim{Name: strings.Repeat("x", 1000) + "\x1b", Rank: uint32(1 + id), Resident: 1 << 63})
	}
	is := p.memoryOf(1, told)
	if len(is.Victims) > 8 || is.Victims[0].ID != -1 || is.Victims[1].ID != 1 || is.Victims[2].ID != -1 || len(is.Victims[0].Name) > 16 || is.Ago < 0 || is.Kills < 0 {
		t.Errorf("%+v", is)
	}
}
