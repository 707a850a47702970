package verdict

import (
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/test/cost"
)

// Lines are of torch 2.15.0 and of JAX's coordination service.
func TestNamed(t *testing.T) {
	for text, want := range map[string]string{
		"RuntimeError: [Rank 0]: Rank 1 failed to pass monitoredBarrier in 2000 ms":                                                                  "1",
		"RuntimeError: [Rank 0]: Ranks 1, 3 failed to pass monitoredBarrier in 2000 ms":                                                              "1,3",
		"RuntimeError: [Rank 0]: Ranks 9 failed to pass monitoredBarrier in 2000 ms":                                                                 "",
		"Rank 1 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0.":                                 "",
		"DEADLINE_EXCEEDED: Barrier timed out. Id: x. Some timed out task names: /job:jax_worker/replica:0/task:2, /job:jax_worker/replica:0/task:3": "2-3",
		"Timed out waiting 4000ms for recv operation to complete":                                                                                    "",
		"": "",
	} {
		if got := Named(text, 4).String(); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func FuzzNamed(f *testing.F) {
	f.Add("Ranks 1, 3 failed to pass monitoredBarrier", 4)
	f.Add("timed out task names: /job:w/task:2", 4)
	f.Fuzz(func(t *testing.T, text string, size int) {
		defer cost.Watch(t, cost.Parser, len(text))()
		if ids := Named(text, min(size, 1<<16)); !ids.Empty() && (ids.Last() >= size || ids.First() < 0) {
			t.Errorf("%q of %d: %v", text, size, ids)
		}
	})
}

// Who was elsewhere is named where the run ended since a rank waited in vain, and not where it ended for another reason.
func TestLook(t *testing.T) {
	const vain = "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 4000ms for recv operation to complete"
	away := job.Absentee{Rank: 3, Own: true, Name: "rank 3", Host: "w1", PID: 13, Why: "it was in clock_nanosleep, while rank 0 waited in all_reduce at fail.py:66"}
	say := func(c *Case, words map[int]string) (Verdict, string) {
		c.Hear(4, func(id int) Said {
			if words[id] == "" {
				return Said{}
			}
			return Said{Raised: []Exception{{Text: words[id]}}, Mute: true}
		}, time.Now(), func(id int) Fault { return Fault{ID: id, Process: job.Process{Rank: id}, Host: "w0"} })
		v, _ := c.Verdict(Circumstances{})
		return v, strings.Join(v.said, "\n")
	}
	exited := func() *Case {
		c := &Case{}
		c.Add(Fault{Event: Ended, Host: "w0", Exit: job.Exit{Code: 1}, At: time.Second})
		return c
	}

	c := exited()
	c.Look = Look{Away: []job.Absentee{away}, Found: true}
	v, text := say(c, map[int]string{0: vain})
	if v.Kind != Collective || v.Rank == nil || *v.Rank != 3 || v.Host != "w1" || v.Confidence != Probable || strings.Contains(text, "nothing tells which") || !strings.Contains(text, "fail.py:66") {
		t.Errorf("one was elsewhere: %+v\n%s", v, text)
	}

	c = exited()
	c.Look = Look{Lines: []string{"ranks were in different collectives: rank 0 in all_reduce, rank 3 in broadcast"}, Differ: true}
	if v, text = say(c, map[int]string{0: vain}); v.Kind != CollectiveMismatch || !v.Likely || v.Rank != nil || strings.Contains(text, "nothing tells which") || !strings.Contains(text, "one order") {
		t.Errorf("in different collectives: %+v\n%s", v, text)
	}

	c = exited()
	c.Look = Look{Away: []job.Absentee{away}, Found: true}
	if v, text = say(c, map[int]string{0: "ValueError: loss is nan"}); v.Kind != Python || v.Rank == nil || *v.Rank != 0 || strings.Contains(text, "rank 3") {
		t.Errorf("it failed for a reason of its own: %+v\n%s", v, text)
	}

	if v, text = say(exited(), map[int]string{0: vain}); v.Rank != nil || !strings.Contains(text, "nothing tells which") {
		t.Errorf("nobody was looked at: %+v\n%s", v, text)
	}
}

// A rank that waited in vain comes before those that only lost it, and one that names another before others.
func TestWhoWaitedComesFirst(t *testing.T) {
	const vain, lost = "RuntimeError: unbound_buffer.cc:78] Timed out waiting 4000ms for recv operation to complete", "RuntimeError: [gloo/transport/tcp/pair.cc:561] Connection closed by peer [127.0.0.1]:33962"
	const named = "RuntimeError: [Rank 0]: Ranks 3 failed to pass monitoredBarrier in 3000 ms"
	for name, tt := range map[string]struct {
		said []string // of ranks in the order in which they end
		want int
	}{
		"lost, vain":        {[]string{lost, vain}, 1},
		"vain, lost":        {[]string{vain, lost}, 0},
		"vain, vain, named": {[]string{vain, vain, named}, 2},
		"lost, named, lost": {[]string{lost, named, lost}, 1},
		"lost, lost":        {[]string{lost, lost}, 0},
		"lost, own":         {[]string{lost, vain, "ValueError: x"}, 2},
	} {
		c := &Case{}
		for id := range tt.said {
			c.Add(Fault{Event: Ended, ID: id, Node: id, Process: job.Process{Rank: id}, Host: "w0", Exit: job.Exit{Code: 1}, At: time.Second})
		}
		c.Hear(len(tt.said), func(id int) Said { return Said{Raised: []Exception{{Text: tt.said[id]}}, Mute: true} }, time.Now(), func(id int) Fault { return Fault{ID: id} })
		if f, _ := c.Cause(); f.ID != tt.want {
			t.Errorf("%s: rank %d, want %d", name, f.ID, tt.want)
		}
	}
}
