package phases

import (
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/visible"
)

func TestNeed(t *testing.T) {
	hosts := func(slots ...int) (out []Candidate) {
		for i, n := range slots {
			out = append(out, Candidate{[]string{"w-0", "w-2", "w-1"}[i], n})
		}
		return out
	}
	slots := NeedOf(0, "", 6, 0)
	round, beyond := slots, slots
	round.All, beyond.Beyond = true, true
	for _, tt := range []struct {
		name    string
		need    Need
		hosts   []Candidate
		at      time.Duration // since they are these
		suffice bool
		lacks   string
	}{
		{"none of a number", NeedOf(3, "--size 3", 6, 0), nil, time.Hour, false, "none of the 3 hosts of --size 3"},
		{"two of three", NeedOf(3, "--size 3", 6, 0), hosts(8, 8), time.Hour, false, "2 of the 3 hosts of --size 3 (w-0, w-2; w-1 is missing)"},
		{"all of three", NeedOf(3, "--size 3", 6, 0), hosts(1, 1, 1), 0, true, ""},
		{"a record of a pod without an agent", NeedOf(3, "--size 3", 6, 0), hosts(1, 1, 0), time.Hour, false,
			"2 of the 3 hosts of --size 3 (w-0, w-2; w-1 is missing; without an answer: w-1)"},
		{"records only", NeedOf(3, "--size 3", 6, 0), hosts(0), time.Hour, false, "0 of the 3 hosts of --size 3 (none answers; without an answer: w-0)"},
		{"-n and -N", NeedOf(0, "", 5, 2), hosts(8, 8), time.Hour, false, "2 of the 3 hosts of -n 5 with -N 2 (w-0, w-2; w-1 is missing)"},
		{"-n and -N, all there", NeedOf(0, "", 5, 2), hosts(1, 1, 1), 0, true, ""},
		{"what the pod is told comes first", NeedOf(2, "PET_NNODES=2", 9, 1), hosts(1, 1), 0, true, ""},
		{"one record has not the slots", slots, hosts(2), time.Hour, false, "1 host with 2 slots, and -n 6 needs 6 (w-0)"},
		{"one slot", slots, hosts(1), time.Hour, false, "1 host with 1 slot, and -n 6 needs 6 (w-0)"},
		{"slots of agents that did not answer do not count", slots, hosts(4, 0), time.Hour, false,
			"2 hosts with 4 slots, and -n 6 needs 6 (w-0; without an answer: w-2)"},
		{"a spare has no slots", Need{Ranks: 4, Spares: 1}, hosts(4, 2), 0, true, ""},
		{"a spare is missing", Need{Ranks: 4, Spares: 1}, hosts(2, 4), time.Hour, false, "2 hosts with 2 slots beside 1 spare, and -n 4 needs 4 (w-0, w-2)"},
		{"a spare has not answered", Need{Ranks: 4, Spares: 1}, hosts(4, 0), time.Hour, false, "2 hosts with 0 slots beside 1 spare, and -n 4 needs 4 (w-0; without an answer: w-2)"},
		{"slots suffice", slots, hosts(4, 4), 0, true, ""},
		{"round all hosts, not settled", round, hosts(4, 4), time.Second, false, "2 hosts (w-0, w-2), and nothing says how many there will be"},
		{"round all hosts", round, hosts(4, 4), Settled, true, ""},
		{"more ranks than slots, not settled", beyond, hosts(1), time.Second, false, "1 host (w-0), and nothing says how many there will be"},
		{"more ranks than slots", beyond, hosts(1), Settled, true, ""},
		{"nothing is said, nobody is there", Need{}, nil, time.Hour, false, "no host with an agent of this job"},
		{"nothing is said, not settled", NeedOf(0, "", 0, 2), hosts(1, 1), Settled - 1, false, "2 hosts (w-0, w-2), and nothing says how many there will be"},
		{"nothing is said", NeedOf(0, "", 0, 2), hosts(1, 1), Settled, true, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			begun := time.Now()
			var s Set
			s.See(begun, nil)
			s.See(begun, tt.hosts)
			s.See(begun.Add(tt.at), tt.hosts)
			if got := tt.need.Suffices(&s, begun.Add(tt.at)); got != tt.suffice {
				t.Errorf("suffices: %v", got)
			}
			if got := tt.need.Lacks(&s); !tt.suffice && got != tt.lacks {
				t.Errorf("lacks %q, want %q", got, tt.lacks)
			}
		})
	}
}

func TestMissing(t *testing.T) {
	for _, tt := range []struct {
		names []string
		of    int
		want  string
	}{
		{[]string{"p-1"}, 3, "p-0, p-2"},
		{[]string{"p-1", "q-0"}, 3, ""},
		{[]string{"10.0.0.1"}, 3, ""},
		{[]string{"p-7"}, 3, ""},
		{[]string{"p-0"}, 9, "p-1, p-2, p-3, p-4, p-5 and 3 more"},
		{nil, 3, ""},
	} {
		if got := visible.Few(missing(tt.names, tt.of), most, ", "); got != tt.want {
			t.Errorf("%v of %d: %q, want %q", tt.names, tt.of, got, tt.want)
		}
	}
}
