package attack

import (
	"strings"
	"testing"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

// hello is what a worker says of itself.
func hello(change func(*apiv1.HelloReply)) *apiv1.HelloReply {
	h := &apiv1.HelloReply{Incarnation: strings.Repeat("0f", 16), Slots: 1, Cpus: 1, Version: "x"}
	change(h)
	return h
}

// ran is what an agent tells of ranks 0 to n-1 that end well.
func ran(n uint32) (list []*apiv1.Frame) {
	list = append(list, (&apiv1.Chosen{Pmi: apiv1.Pmi_PMI_NONE}).Frame())
	for r := range n {
		list = append(list, (&apiv1.Started{Rank: r, Pid: 7}).Frame(), (&apiv1.Exited{Rank: r}).Frame(), (&apiv1.OutputEnd{Rank: r}).Frame())
	}
	return list
}

// A worker says of itself what no host has, before a run that has a rank for each slot, and before one whose size goes with its hosts. What is made of it is
// bounded, and no job is larger than hosts can have.
func TestWhatAWorkerCounts(t *testing.T) {
	s := newSite(t)
	tls := "--tls-dir=" + s.files("mpiup://g/launcher/l")
	for _, tt := range []struct {
		name string
		host *apiv1.HelloReply
	}{
		{"2^31-1 slots and processors", hello(func(h *apiv1.HelloReply) { h.Slots, h.Cpus, h.Gpus = 1<<31-1, 1<<31-1, 1<<31-1 })},
		{"fewer than none", hello(func(h *apiv1.HelloReply) { h.Slots, h.Cpus, h.Gpus = -1<<31, -1<<31, -1<<31 })},
		{"a million slots", hello(func(h *apiv1.HelloReply) { h.Slots = 1 << 20 })},
	} {
		for _, elastic := range [][]string{nil, {"--min-np", "1", "--max-restarts", "1", "--stdin", "none", "--last-call", "0"}, {"--min-np", "1", "--max-np", "1000000", "--max-restarts", "1", "--stdin", "none", "--last-call", "0"}, {"-n", "2"}} {
			at := tell(t, s.files("mpiup://g/agent/x"), &teller{host: tt.host, tells: ran(4096)})
			begun := time.Now()
			e := mpiup(t, append(append([]string{"run", tls, "--wait", "2", "--host", at}, elastic...), "--", "true")...)
			if strings.Contains(e.Stderr, "goroutine ") || e.Code == 240 || time.Since(begun) > bound/2 {
				t.Errorf("%s, %q: it ends with %d after %v:\n%.2000s", tt.name, elastic, e.Code, time.Since(begun), e.Stderr)
			}
		}
	}
}

// A worker that comes to an elastic job passes for a host that it has, says that it is none of its kind, or answers with nothing but refusals. The job of
// the honest host ends well.
func TestWhoComesToAnElasticJob(t *testing.T) {
	s := newSite(t)
	honest := startAgent(t, nil, "--http", "off", "--slots", "1", "--tls-dir", s.files("mpiup://g/agent/w"))
	name := "h" + strings.ReplaceAll(honest.Addr, ".", "-")
	for _, tt := range []struct {
		name, uri string
		is        *teller
	}{
		{"by another's name", "mpiup://g/agent/x", &teller{host: hello(func(h *apiv1.HelloReply) { h.Name = name }), tells: []*apiv1.Frame{
			(&apiv1.Chosen{Pmi: apiv1.Pmi_PMI_NONE}).Frame(), (&apiv1.Started{Rank: 1, Pid: 7}).Frame(), (&apiv1.Exited{Rank: 1}).Frame(), (&apiv1.OutputEnd{Rank: 1}).Frame()}}},
		{"of another group", "mpiup://other/agent/x", &teller{host: hello(func(*apiv1.HelloReply) {})}},
		{"that speaks another protocol", "mpiup://g/agent/x", &teller{host: hello(func(*apiv1.HelloReply) {}), opened: &apiv1.Opened{Protocol: 99, Version: "y", Refusal: apiv1.Refusal_REFUSAL_PROTOCOL}}},
		{"that is about to end", "mpiup://g/agent/x", &teller{host: hello(func(*apiv1.HelloReply) {}), opened: &apiv1.Opened{Refusal: apiv1.Refusal_REFUSAL_ENDING}}},
		{"without a life", "mpiup://g/agent/x", &teller{host: hello(func(h *apiv1.HelloReply) { h.Incarnation = "" })}},
		{"that answers a Hello and no session", "mpiup://g/agent/x", &teller{host: hello(func(*apiv1.HelloReply) {}), mute: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			at := tell(t, s.files(tt.uri), tt.is)
			e := mpiup(t, "run", "--tls-dir="+s.files("mpiup://g/launcher/l"), "--wait", "3", "--host", honest.Addr+","+at, "--min-np", "1", "--max-np", "2", "--last-call", "0", "--max-restarts", "3",
				"--stdin", "none", "--", "echo", "honest")
			if e.Code != 0 || e.Stdout != "honest\n" {
				t.Errorf("it ends with %d and %q:\n%s", e.Code, e.Stdout, e.Stderr)
			}
		})
	}
}
