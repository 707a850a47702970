package attack

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
)

// fraction is which of a run's ranks lie.
type fraction struct {
	name        string
	hosts, each int // ranks of a host
	liars       idset.Set
}

func (f fraction) ranks() int { return f.hosts * f.each }

// whole says that of each host all lie, or nobody.
func (f fraction) whole() bool {
	for h := range f.hosts {
		own := idset.Range(h*f.each, (h+1)*f.each-1)
		if own.Overlaps(f.liars) && !f.liars.Covers(own) {
			return false
		}
	}
	return true
}

// fractions are up to half of the ranks, and up to half of the hosts.
var fractions = []fraction{
	{"one of two", 2, 1, idset.Of(0)},
	{"one of four, on two hosts", 2, 2, idset.Of(0)},
	{"one of four, on one host", 1, 4, idset.Of(0)},
	{"half of them, on one host", 1, 4, idset.Of(0, 1)},
	{"half of them, one on each host", 2, 2, idset.Of(0, 2)},
	{"one host of two", 2, 2, idset.Of(0, 1)},
	{"one host of three", 3, 2, idset.Of(0, 1)},
	{"half of four hosts", 4, 1, idset.Of(0, 1)},
}

// A source is what liars write, and what the others have, who are innocent: each frame of an agent is about one of its ranks.
type source struct {
	name  string
	flags []string
	lie   func(f fraction, id uint32) []*apiv1.Frame
	truth func(f fraction, id uint32) []*apiv1.Frame
	lies  func(f fraction, ids []uint32) *apiv1.Waits // a host's answer to who waits; honest says whether all of ids tell the truth
	ends  bool                                        // ranks end by themselves
	sees  bool                                        // it is what agents see: all of a host lie, or none
	told  string                                      // of the liars, where they are half
}

const step = 100 * time.Millisecond

// waited is a rank that has been in collectives for some seconds, of which it waited a share.
func waited(id uint32, share float64, inside bool) []*apiv1.Frame {
	const begun = 1000 * time.Second
	var frames []*apiv1.Frame
	for from := uint64(0); from < 64; from += 16 {
		m := &apiv1.RankWaited{Id: id, State: apiv1.WatchState_WATCH_MEASURED, Seq: from + 16}
		for n := from + 1; n <= from+16; n++ {
			past := time.Duration(n) * step
			m.Points = append(m.Points, &apiv1.WaitPoint{Seq: n, WaitedNs: int64(share * float64(past)), AtNs: int64(begun + past)})
		}
		at := begun + time.Duration(from+16)*step
		m.CpuNs = int64(at)
		if inside {
			m.InsideNs, m.Call, m.CalledNs = int64(begun-time.Minute), "MPI_Allreduce", int64(begun-time.Minute)
		}
		frames = append(frames, (&apiv1.Waited{AtNs: int64(at), Ranks: []*apiv1.RankWaited{m}}).Frame())
	}
	return frames
}

// recorded is a flight recorder in which a rank has called a number of a group.
func recorded(id uint32, group, members string, number uint64, done bool) []*apiv1.Frame {
	op := &apiv1.FlightOp{Seq: number, Name: "nccl:all_reduce", Shape: "[8]", Done: done, Where: "train.py:31 step"}
	return []*apiv1.Frame{(&apiv1.Flight{Rank: id, Groups: []*apiv1.FlightGroup{{Name: group, Ranks: members, Last: number, Ops: []*apiv1.FlightOp{op}}}}).Frame()}
}

func (f fraction) all() string { return idset.Range(0, f.ranks()-1).String() }

var timeUp = []string{"--timeout", "1"}

var sources = []source{
	{
		name: "the watch page: they have waited", flags: []string{"--watch-ranks", "--watch-window", "2s"}, ends: true,
		lie:   func(_ fraction, id uint32) []*apiv1.Frame { return waited(id, 0.6, false) },
		truth: func(_ fraction, id uint32) []*apiv1.Frame { return waited(id, 0.01, false) },
		told:  "their words alone name nobody",
	},
	{
		name: "the watch page: they are in a collective", flags: slices.Concat([]string{"--watch-ranks", "--watch-window", "1s"}, timeUp),
		lie:   func(_ fraction, id uint32) []*apiv1.Frame { return waited(id, 0.01, true) },
		truth: func(_ fraction, id uint32) []*apiv1.Frame { return waited(id, 0.01, false) },
	},
	{
		name: "a flight recorder whose number is ahead of those who wait", flags: timeUp,
		lie:   func(f fraction, id uint32) []*apiv1.Frame { return recorded(id, "0", f.all(), 1000, false) },
		truth: func(f fraction, id uint32) []*apiv1.Frame { return recorded(id, "0", f.all(), 20, false) },
		told:  " contradict each other: by the one number 1000 of group 0 has begun",
	},
	{
		name: "a flight recorder whose number is ahead of those who compute", flags: timeUp,
		lie:   func(f fraction, id uint32) []*apiv1.Frame { return recorded(id, "0", f.all(), 21, false) },
		truth: func(f fraction, id uint32) []*apiv1.Frame { return recorded(id, "0", f.all(), 20, true) },
		told:  " alone: that is too little to say who is not there",
	},
	{
		name: "a flight recorder with a group that is made up", flags: timeUp,
		lie:   func(f fraction, id uint32) []*apiv1.Frame { return recorded(id, "z", f.all(), 5, false) },
		truth: func(f fraction, id uint32) []*apiv1.Frame { return recorded(id, "0", f.all(), 20, true) },
	},
	{
		name: "the same, of ranks that left no record", flags: timeUp,
		lie:   func(f fraction, id uint32) []*apiv1.Frame { return recorded(id, "z", f.all(), 5, false) },
		truth: func(fraction, uint32) []*apiv1.Frame { return nil },
	},
	{
		name: "PMI: they have entered a fence of all", flags: timeUp,
		lies: func(f fraction, ids []uint32) *apiv1.Waits {
			return fence(f, ids, f.all())
		},
	},
	{
		name: "PMI: they have entered a fence of some, with one that is none of theirs", flags: timeUp,
		lies: func(f fraction, ids []uint32) *apiv1.Waits {
			return fence(f, ids, f.liars.Union(idset.Of(f.ranks()-1)).String())
		},
	},
	{
		name: "an agent's words: they use a processor, the others idle", sees: true, flags: slices.Concat([]string{"--stall-timeout", "1s"}, []string{"--timeout", "4"}),
		lie:   func(_ fraction, id uint32) []*apiv1.Frame { return active(id, true) },
		truth: func(_ fraction, id uint32) []*apiv1.Frame { return active(id, false) },
	},
	{
		name: "an agent's words: their stacks wait in a barrier", sees: true, flags: timeUp,
		lies: func(f fraction, ids []uint32) *apiv1.Waits {
			w := &apiv1.Waits{}
			for _, id := range ids {
				frames := []string{"spin", "main"}
				if f.liars.Contains(int(id)) {
					frames = []string{"poll", "PMPI_Barrier", "main"}
				}
				w.Stacks = append(w.Stacks, &apiv1.ProcStack{Id: id, Pid: 7, Means: "eu-stack", Frames: frames})
			}
			return w
		},
	},
}

// fence is a host's barriers: those of ids that lie have entered it.
func fence(f fraction, ids []uint32, set string) *apiv1.Waits {
	var entered idset.Set
	for _, id := range ids {
		if f.liars.Contains(int(id)) {
			entered.Add(int(id))
		}
	}
	if entered.Empty() {
		return &apiv1.Waits{}
	}
	return &apiv1.Waits{Waits: []*apiv1.Wait{{Set: set, Entered: entered.String(), Seconds: 90}}}
}

// active is what an agent sees that a rank does.
func active(id uint32, busy bool) []*apiv1.Frame {
	text := fmt.Sprint(id)
	m := &apiv1.Activity{Looked: 31}
	if busy {
		m.Busy = text
	} else {
		m.Idle, m.Places = text, []*apiv1.Place{{Ids: text, Where: "clock_nanosleep"}}
	}
	return []*apiv1.Frame{m.Frame()}
}

// accused is whom a line names of whom others wait for.
var accused = regexp.MustCompile(`^mpiup: (?:torch's )?ranks? ([0-9,-]+)\b.*(?: odd ones? out: |: the others waited |: all others have waited |: it was the last to call | ha(?:s|ve) waited for (?:it|them))`)

// innocents are those in a line who are named and are no liars.
func (f fraction) innocents(line string) string {
	m := accused.FindStringSubmatch(line)
	if m == nil {
		return ""
	}
	ids, err := idset.Parse(m[1])
	if err != nil {
		return m[1]
	}
	return ids.Sub(f.liars).String()
}

// Up to half of the ranks, or of the hosts, lie about themselves by whatever they write: their pages, their flight recorders, groups that are none, their
// PMI, their agents' words. Nobody else is named: not in a line, not in the verdict.
func TestLiarsFrameNobody(t *testing.T) {
	s := newSite(t)
	for _, src := range sources {
		for _, f := range fractions {
			if src.sees && !f.whole() {
				continue
			}
			t.Run(src.name+", "+f.name, func(t *testing.T) {
				t.Parallel()
				s := &site{t, s.Authority}
				var hosts []string
				for h := range f.hosts {
					hosts = append(hosts, tell(t, s.files(fmt.Sprintf("mpiup://g/agent/w%d", h)), f.host(src, h))+fmt.Sprint(":", f.each))
				}
				args := slices.Concat([]string{"run", "--tls-dir=" + s.files("mpiup://g/launcher/l"), "--wait", "1", "--host", strings.Join(hosts, ","),
					"-n", fmt.Sprint(f.ranks()), "--output", "json"}, src.flags, []string{"--", "true"})
				e := mpiup(t, args...)
				for line := range strings.Lines(e.Stderr) {
					if named := f.innocents(line); named != "" {
						t.Errorf("rank %s is named: %s", named, line)
					}
				}
				if v := verdictIn(e.Stdout); v.Rank != nil && !f.liars.Contains(*v.Rank) || v.Ranks != "" && v.Ranks != f.liars.String() || v.Absent != nil {
					t.Errorf("the verdict names rank %v, ranks %q, %v", v.Rank, v.Ranks, v.Absent)
				}
				if half := 2*f.liars.Len() == f.ranks(); half && f.liars.Len() > 1 && src.told != "" && !strings.Contains(e.Stderr, src.told) {
					t.Errorf("it is not said who says so, %q", src.told)
				}
				if want := 110; !src.ends && e.Code != want || src.ends && e.Code != 0 {
					t.Errorf("it ends with %d", e.Code)
				}
				if t.Failed() {
					t.Logf("%s\n%s", e.Stderr, e.Stdout)
				}
			})
		}
	}
}

// verdictIn is what of a verdict names ranks.
func verdictIn(stdout string) (v struct {
	Event  string
	Rank   *int
	Ranks  string
	Absent []any
}) {
	for line := range strings.Lines(stdout) {
		if strings.Contains(line, `"event":"verdict"`) {
			_ = json.Unmarshal([]byte(line), &v)
		}
	}
	return v
}

// host is an agent of a run: it tells what its ranks say of themselves, and answers what it is asked.
func (f fraction) host(src source, h int) *teller {
	is := &teller{host: &apiv1.HelloReply{Name: fmt.Sprint("w", h), Incarnation: strings.Repeat(fmt.Sprint(h), 32), Slots: int32(f.each), Cpus: int32(f.each)}, waits: &apiv1.Waits{}}
	is.tells = append(is.tells, (&apiv1.Chosen{Pmi: apiv1.Pmi_PMI_FD}).Frame())
	var ids []uint32
	for i := range f.each {
		id := uint32(h*f.each + i)
		ids = append(ids, id)
		is.tells = append(is.tells, (&apiv1.Started{Rank: id, Pid: int32(100 + id)}).Frame())
	}
	for _, id := range ids {
		say := src.truth
		if f.liars.Contains(int(id)) {
			say = src.lie
		}
		if say != nil {
			is.tells = append(is.tells, say(f, id)...)
		}
		over := []*apiv1.Frame{(&apiv1.Exited{Rank: id, StoppedByUs: !src.ends, Pmi: apiv1.PmiState_PMI_FINALIZED}).Frame(), (&apiv1.OutputEnd{Rank: id}).Frame()}
		if src.ends {
			is.tells = append(is.tells, over...)
		} else {
			is.stopped = append(is.stopped, over...)
		}
	}
	if src.lies != nil {
		is.waits = src.lies(f, ids)
	}
	return is
}
