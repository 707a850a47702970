package placement

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/job"
)

// sites reads "w0:2/1 w1~2/0": slots that were given (":") or counted ("~"), and how many
// processes are there.
func sites(t *testing.T, text string) (out []Site) {
	t.Helper()
	for _, f := range strings.Fields(text) {
		s := Site{}
		sep := ":"
		if strings.Contains(f, "~") {
			sep = "~"
		}
		name, rest, _ := strings.Cut(f, sep)
		if _, err := fmt.Sscanf(rest, "%d/%d", &s.Slots, &s.Busy); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		s.Host = job.Host{Name: name, Slots: s.Slots, SlotsGiven: sep == ":"}
		out = append(out, s)
	}
	return out
}

func TestSpawn(t *testing.T) {
	n := func(procs int) Batch { return Batch{Name: "c", Procs: procs} }
	on := func(procs int, shares ...Share) Batch { return Batch{Name: "c", Procs: procs, On: shares} }
	ppr := func(procs, most int) Batch { return Batch{Name: "c", Procs: procs, PerHost: most} }
	for _, tt := range []struct {
		name    string
		sites   string
		batches []Batch
		over    bool
		by      MapBy  // of the run
		want    string // host of each rank, or the error
	}{
		{name: "free slots in order of hosts", sites: "w0:2/1 w1:4/1", batches: []Batch{n(3)}, want: "w0 w1 w1"},
		{name: "a full host is passed over", sites: "w0:1/1 w1:2/0", batches: []Batch{n(2)}, want: "w1 w1"},
		{name: "by node", sites: "w0:2/0 w1:2/0", batches: []Batch{{Name: "c", Procs: 3, MapBy: ByNode}}, want: "w0 w1 w0"},
		{name: "by node as the run", sites: "w0:2/0 w1:2/0", batches: []Batch{n(3)}, by: ByNode, want: "w0 w1 w0"},
		{name: "by slot, whatever the run", sites: "w0:2/0 w1:2/0", batches: []Batch{{Name: "c", Procs: 3, MapBy: BySlot}}, by: ByNode, want: "w0 w0 w1"},
		{name: "round as the run", sites: "w0~2/2 w1~2/0", batches: []Batch{n(3)}, by: ByRound, over: true, want: "w0 w1 w0"},
		{name: "round in blocks of hosts with numbers", sites: "w0:2/1 w1:1/0", batches: []Batch{n(5)}, by: ByRound, over: true, want: "w0 w0 w1 w0 w0"},
		{name: "by node, whatever the round", sites: "w0:2/0 w1:2/0", batches: []Batch{{Name: "c", Procs: 4, MapBy: ByNode}}, by: ByRound, over: true, want: "w0 w1 w0 w1"},
		{name: "counted slots are no limit", sites: "w0~2/2", batches: []Batch{n(3)}, want: "w0 w0 w0"},
		{name: "beyond slots, one a host", sites: "w0~2/1 w1~1/0", batches: []Batch{n(5)}, want: "w0 w0 w0 w1 w1"},
		{name: "beyond slots, only where they were counted", sites: "w0:1/0 w1~1/1", batches: []Batch{n(3)}, want: "w0 w1 w1"},
		{name: "given slots are a limit", sites: "w0:2/2 w1:1/0", batches: []Batch{n(2)},
			want: "2 processes of c asked for, but there is room for 1 (w0: 2 slots, 2 taken, w1: 1 slot, 0 taken); ask for 1 or less, give more slots, or start mpiup with --oversubscribe"},
		{name: "none is free", sites: "w0:2/3", batches: []Batch{n(1)},
			want: "1 process of c asked for, but there is room for 0 (w0: 2 slots, 2 taken); give more slots, or start mpiup with --oversubscribe"},
		{name: "oversubscribed", sites: "w0:1/1 w1:1/1", batches: []Batch{n(3)}, over: true, want: "w0 w0 w1"},
		{name: "the second program takes what the first leaves", sites: "w0:2/0 w1:2/0", batches: []Batch{n(1), n(2)}, want: "w0 w0 w1"},
		{name: "and finds too little", sites: "w0:2/0", batches: []Batch{n(1), n(2)}, want: "2 processes of c asked for, but there is room for 1 (w0: 2 slots, 1 taken)"},
		{name: "on one host", sites: "w0:2/0 w1:2/0", batches: []Batch{on(2, Share{Site: 1})}, want: "w1 w1"},
		{name: "on one host that is full", sites: "w0:2/0 w1:2/2", batches: []Batch{on(1, Share{Site: 1})}, want: "there is room for 0 (w1: 2 slots, 2 taken)"},
		{name: "a share of a host", sites: "w0:4/0 w1:4/0", batches: []Batch{on(3, Share{Site: 0, Slots: 1}, Share{Site: 1, Slots: 2})}, want: "w0 w1 w1"},
		{name: "a host named twice", sites: "w0:4/0", batches: []Batch{on(3, Share{Site: 0, Slots: 1}, Share{Site: 0, Slots: 2})}, want: "w0 w0 w0"},
		{name: "a share is a limit", sites: "w0~4/0", batches: []Batch{on(2, Share{Site: 0, Slots: 1})}, want: "there is room for 1 (w0: 1 slot, 0 taken)"},
		{name: "a share beyond counted slots", sites: "w0~1/1", batches: []Batch{on(3, Share{Site: 0, Slots: 3})}, want: "w0 w0 w0"},
		{name: "a share beyond given slots", sites: "w0:1/1", batches: []Batch{on(1, Share{Site: 0, Slots: 3})}, want: "there is room for 0 (w0: 1 slot, 1 taken)"},
		{name: "at most so many on a host", sites: "w0:4/0 w1:4/0", batches: []Batch{ppr(3, 2)}, want: "w0 w0 w1"},
		{name: "at most so many, beyond slots", sites: "w0~1/0 w1~1/0", batches: []Batch{ppr(4, 2)}, want: "w0 w0 w1 w1"},
		{name: "more than so many", sites: "w0:4/0 w1:4/0", batches: []Batch{ppr(5, 2)}, over: true,
			want: "5 processes of c asked for, but 2 per host on 2 hosts makes 4; ask for fewer, for more per host or for more hosts"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plan, used, err := Spawn(sites(t, tt.sites), tt.batches, Policy{Oversubscribe: tt.over, MapBy: tt.by})
			if err != nil {
				if !strings.Contains(err.Error(), tt.want) {
					t.Errorf("error %q, want %q", err, tt.want)
				}
				return
			}
			var got []string
			local := map[int]int{}
			for rank, p := range plan.Placements {
				got = append(got, plan.Hosts[p.Host].Name)
				if int(p.Rank) != rank || p.LocalRank != local[p.Host] {
					t.Errorf("rank %d: %+v", rank, p)
				}
				local[p.Host]++
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("%s, want %s", strings.Join(got, " "), tt.want)
			}
			for i, h := range used {
				if s := sites(t, tt.sites); s[h].Name != plan.Hosts[i].Name {
					t.Errorf("used[%d] is %s, the plan's host %s", i, s[h].Name, plan.Hosts[i].Name)
				}
			}
		})
	}
}

func TestSpawnWarnsOfCPUs(t *testing.T) {
	s := []Site{{Host: job.Host{Name: "w0", Slots: 2, CPUs: 2}, Busy: 2}, {Host: job.Host{Name: "w1", Slots: 1, CPUs: 1}, Busy: 4}}
	plan, _, err := Spawn(s, []Batch{{Name: "c", Procs: 1, On: []Share{{Site: 0}}}}, Policy{Oversubscribe: false})
	if err != nil || len(plan.Warnings) != 1 || !strings.Contains(plan.Warnings[0], "w0: 3 ranks on 2 CPUs") {
		t.Errorf("%v, %v", plan, err)
	}
}
