package hang

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/idset"
)

func set(t *testing.T, text string) idset.Set {
	t.Helper()
	s, err := idset.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// told is "own ids | silent | set entered seconds, ..." of each host.
func told(t *testing.T, hosts ...string) *Picture {
	t.Helper()
	p := &Picture{}
	for _, h := range hosts {
		part := strings.Split(h, "|")
		r := Barriers{}
		if silent := strings.TrimSpace(part[1]); silent != "" {
			r.Silent = set(t, silent)
		}
		for _, text := range strings.Split(part[2], ";") {
			if f := strings.Fields(text); len(f) == 3 {
				var seconds time.Duration
				fmt.Sscan(f[2], (*int64)(&seconds))
				of, _, _ := strings.Cut(f[0], "#")
				r.Open = append(r.Open, Barrier{Name: f[0], Of: set(t, of), Entered: set(t, f[1]), Age: seconds * time.Second})
			}
		}
		p.Add(r, set(t, part[0]))
	}
	return p
}

func TestBarriers(t *testing.T) {
	many := make([]string, 0, 8)
	for i := range 6 {
		many = append(many, fmt.Sprintf("0,%d 0 70", i+1))
	}
	for _, tt := range []struct {
		name    string
		hosts   []string
		running string
		waiting string // for a minute
		all     string
		culprit int
		alone   bool // and nobody else
	}{
		{name: "one never calls MPI_Init", hosts: []string{"0-1||0-3 0-1 64", "2-3|2|0-3 3 61"}, running: "0-3", culprit: 2,
			waiting: "rank 2 (h, pid 102) has not called MPI_Init; ranks 0-1,3 have waited for it for 1m4s"},
		{name: "not for long", hosts: []string{"0-1||0-3 0-1 59", "2-3|2|0-3 3 51"}, running: "0-3", culprit: 2,
			all: "rank 2 (h, pid 102) has not called MPI_Init; ranks 0-1,3 have waited for it for 59s"},
		{name: "one of its host waits for it inside MPI_Init", hosts: []string{"0-1|1|0-3", "2-3||0-3 2-3 60"}, running: "0-3", culprit: 1, alone: true,
			waiting: "rank 1 (h, pid 101) has not called MPI_Init; ranks 2-3 have waited for it for 1m0s"},
		{name: "two of them, and one that is late but has called it", hosts: []string{"0-4|1,3|0-4 0,4 60"}, running: "0-4", culprit: 1,
			waiting: "rank 1 (h, pid 101) and rank 3 (h, pid 103) have not called MPI_Init; ranks 0,4 have waited for them for 1m0s"},
		{name: "a later barrier", hosts: []string{"0-1||0-1 1 300"}, running: "0-1", culprit: -1,
			waiting: "rank 1 (h, pid 101) has waited in a barrier for 5m0s; ranks 0 is not there, and may wait for it elsewhere"},
		{name: "one that has left the many", hosts: []string{"0-3||0-3 2 90"}, running: "0-3", culprit: -1,
			waiting: "rank 2 (h, pid 102) has waited in a barrier for 1m30s; ranks 0-1,3 are not there, and may wait for it elsewhere"},
		{name: "very many", hosts: []string{"0-999|1-999|0-999 0 60"}, running: "0-999", culprit: -1,
			waiting: "rank 0 (h, pid 100) has waited in a barrier for 1m0s; ranks 1-999 have not called MPI_Init"},
		{name: "a group with a tag", hosts: []string{"0-3||2-3#7 3 90"}, running: "0-3", culprit: -1,
			waiting: "rank 3 (h, pid 103) has waited in a barrier for 1m30s; ranks 2 is not there, and may wait for it elsewhere"},
		{name: "whoever is over is waited for by nobody", hosts: []string{"0-1||0-1 1 90"}, running: "1", culprit: -1,
			all: "all ranks are between MPI_Init and MPI_Finalize: in the program's own code, or in other calls of MPI"},
		{name: "all are in, and the answer is on its way", hosts: []string{"0-1||0-1 0-1 90"}, running: "0-1", culprit: -1,
			all: "all ranks are between MPI_Init and MPI_Finalize: in the program's own code, or in other calls of MPI"},
		{name: "no MPI program", hosts: []string{"0-1|0-1|"}, running: "0-1", culprit: -1,
			all: "no rank has called MPI_Init: all are in the program's own code"},
		{name: "some have not, and nobody waits", hosts: []string{"0-1|1|"}, running: "0-1", culprit: -1,
			all: "rank 1 (h, pid 101) has not called MPI_Init; all others have"},
		{name: "a host speaks for its own ranks only", hosts: []string{"0|0-1|0-1 0-1 90", "1||"}, running: "0-1", culprit: -1,
			waiting: "rank 0 (h, pid 100) has waited in a barrier for 1m30s; ranks 1 is not there, and may wait for it elsewhere"},
		{name: "many barriers", hosts: []string{"0-9||" + strings.Join(many, ";")}, running: "0-9", culprit: -1,
			waiting: "rank 0 (h, pid 100) has waited in a barrier for 1m10s; ranks 1 is not there, and may wait for it elsewhere\n" +
				"rank 0 (h, pid 100) has waited in a barrier for 1m10s; ranks 2 is not there, and may wait for it elsewhere\n" +
				"rank 0 (h, pid 100) has waited in a barrier for 1m10s; ranks 3 is not there, and may wait for it elsewhere\n" +
				"and 3 more barriers are open"},
		{name: "nothing runs", hosts: []string{"0-1||"}, running: "", culprit: -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.all == "" {
				tt.all = tt.waiting
			}
			p := told(t, tt.hosts...)
			run := Words{Running: set(t, tt.running), Places: onHosts(set(t, tt.running), 1000), Name: func(id int) string { return fmt.Sprintf("rank %d (h, pid %d)", id, 100+id) },
				Names: func(ids idset.Set) string { return "ranks " + ids.String() }}
			waiting := p.Waiting(run, time.Minute)
			all, culprit := p.All(run, true), -1
			if odd := (Facts{Running: run.Running, Places: run.Places, Barriers: p}).Blame().IDs(); !odd.Empty() {
				culprit = odd.First()
				if tt.alone && odd.Len() != 1 {
					t.Errorf("%s are named", odd)
				}
			}
			if got := strings.Join(waiting, "\n"); got != tt.waiting {
				t.Errorf("waiting:\n%s\nwant\n%s", got, tt.waiting)
			}
			if got := strings.Join(all, "\n"); got != tt.all || culprit != tt.culprit {
				t.Errorf("all, with culprit %d:\n%s\nwant %d\n%s", culprit, got, tt.culprit, tt.all)
			}
		})
	}
}

// Half of the ranks in a barrier may have left the other half, as after an error, and a barrier of some may be made up: nobody is named. Where one has
// not called MPI_Init, or the many wait for few in one of all, it is certain.
func TestHowSureABarrierIs(t *testing.T) {
	for _, tt := range []struct{ name, host, want string }{
		{"many wait for one", "0-3||0-3 0-2 90", "3"},
		{"one waits for one", "0-1||0-1 1 90", ""},
		{"two wait for two", "0-3||0-3 2-3 90", ""},
		{"two wait for one that is in no barrier of theirs", "0-3||0-2 0-1 90", ""},
		{"one waits for one that has not called MPI_Init", "0-1|0|0-1 1 90", "0"},
		{"one waits for three that have not called it", "0-3|1-3|0-3 0 90", ""},
	} {
		running := set(t, tt.host[:3])
		b := Facts{Running: running, Places: onHosts(running, 1000), Barriers: told(t, tt.host)}.Blame()
		if b.IDs().String() != tt.want || b.Sure != (tt.want != "") {
			t.Errorf("%s: %+v", tt.name, b)
		}
	}
}

// What an agent makes up costs no more than a bound.
func TestManyBarriers(t *testing.T) {
	p := &Picture{}
	for i := range 1000 {
		p.Add(Barriers{Open: []Barrier{{Name: fmt.Sprintf("0-1#%d", i), Of: set(t, "0-1")}}}, idset.Of(0))
	}
	if len(p.open) != maxBarriers {
		t.Errorf("%d barriers are kept", len(p.open))
	}
}

// In which call a barrier is shows by the stacks of those that wait in it, or by their own word: a hang in MPI_Finalize is none in MPI_Init.
func TestWhereABarrierIs(t *testing.T) {
	words := Words{Running: set(t, "0-3"), Places: onHosts(set(t, "0-3"), 2), Name: func(id int) string { return fmt.Sprint("rank ", id) }, Names: func(ids idset.Set) string { return ids.Named("rank") }}
	const final, out = "read,PMPI_Finalize,main ", "nanosleep,main "
	for _, tt := range []struct {
		name, stacks, line, why string
		own                     map[int]string
	}{
		{name: "nobody looked", line: "rank 2 has not entered the barrier", why: "others wait for it in a fence (MPI_Init, MPI_Finalize or another exchange)"},
		{name: "by stacks", stacks: final + final + out + final, line: "rank 2 has not come to MPI_Finalize", why: "others wait for it in MPI_Finalize"},
		{name: "by one stack", stacks: final, line: "rank 2 has not come to MPI_Finalize", why: "others wait for it in MPI_Finalize"},
		{name: "by their own word", own: map[int]string{0: "MPI_Finalize", 2: "MPI_Recv"}, line: "rank 2 has not come to MPI_Finalize", why: "others wait for it in MPI_Finalize"},
		{name: "it is in it too", stacks: final + final + "poll,MPI_Finalize,main " + final, line: "rank 2 has not entered MPI_Finalize's barrier", why: "others wait for it in MPI_Finalize"},
		{name: "inside MPI_Init", stacks: "read,MPI_Init,main", line: "rank 2 has not entered MPI_Init's barrier", why: "others wait for it in MPI_Init"},
		{name: "they are in two calls", stacks: final + "MPI_Init,main", line: "rank 2 has not entered the barrier", why: "others wait for it in a fence (MPI_Init, MPI_Finalize or another exchange)"},
		{name: "they are in the program", stacks: out + out, line: "rank 2 has not entered the barrier", why: "others wait for it in a fence (MPI_Init, MPI_Finalize or another exchange)"},
	} {
		p := told(t, "0-3||0-3 0-1,3 24")
		p.In(tt.own)
		p.See(placed(tt.stacks))
		if got := strings.Join(p.Waiting(words, 0), "\n"); got != tt.line+"; ranks 0-1,3 have waited for it for 24s" {
			t.Errorf("%s: %s", tt.name, got)
		}
		if odd := p.odd(Facts{Running: words.Running, Places: words.Places}, 0); len(odd) != 1 || odd[0].Why != tt.why {
			t.Errorf("%s: %+v", tt.name, odd)
		}
	}
}

// Who skips a collective and goes to MPI_Finalize may have left the many, which are not said to be late.
func TestOneThatSkipsACollective(t *testing.T) {
	words := Words{Running: set(t, "0-3"), Places: onHosts(set(t, "0-3"), 2), Name: func(id int) string { return fmt.Sprint("rank ", id) }, Names: func(ids idset.Set) string { return ids.Named("rank") }}
	for _, tt := range []struct {
		in   map[int]string
		want string
	}{
		{map[int]string{0: "MPI_Finalize", 1: "MPI_Barrier", 2: "MPI_Barrier", 3: "MPI_Barrier"},
			"rank 0 has waited in MPI_Finalize for 24s; ranks 1-3 are not there, and may wait for it in MPI_Barrier"},
		{map[int]string{0: "MPI_Finalize", 1: "MPI_Barrier", 2: "MPI_Recv"}, "rank 0 has waited in MPI_Finalize for 24s; ranks 1-3 are not there, and may wait for it elsewhere"},
		{map[int]string{0: "MPI_Finalize", 1: "MPI_Finalize"}, "rank 0 has waited in MPI_Finalize for 24s; ranks 1-3 have not entered its barrier"},
		{map[int]string{0: "MPI_Init"}, "rank 0 has waited in MPI_Init for 24s; ranks 1-3 have not entered its barrier"},
	} {
		p := told(t, "0-3||0-3 0 24")
		p.In(tt.in)
		if got := strings.Join(p.Waiting(words, 0), "\n"); got != tt.want {
			t.Errorf("%s, want %s", got, tt.want)
		}
	}
}
