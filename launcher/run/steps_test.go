package run

import (
	"strings"
	"testing"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

// Steps become slower: hosts are asked for their flight recorders, and the rank that calls last is named by their clocks, which are apart; it is
// what /metrics then has. Where no recorder tells, nobody is.
func TestStepsBecomeSlower(t *testing.T) {
	for name, c := range map[string]struct {
		records bool
		want    string
	}{
		"a recorder": {true, "  say torch's rank 2 on w2: it was the last to call 63 of the last 63 collectives of group 0, 300ms after the others"},
		"none":       {false, "  say no rank can be named"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			s := &script{t: t, out: &out}
			for _, line := range []string{"run 3 3 watch=60s", "start 0", "start 1", "start 2", "enter w0 0-2/1", "enter w1 0-2/1", "enter w2 0-2/1"} {
				words := strings.Fields(line)
				s.do(words[0], words[1:])
			}
			from := func(h int, f interface{ Frame() *apiv1.Frame }) {
				s.step(Frame{Host: h, Frame: f.Frame(), At: s.now.Clock})
			}
			var asked time.Time
			for at := 0; at < 300 && asked.IsZero(); at += 5 {
				long := time.Second
				if at > 150 {
					long = 1300 * time.Millisecond
				}
				for h := range 3 {
					from(h, &apiv1.Waited{AtNs: int64(s.now.Clock + time.Hour), Ranks: []*apiv1.RankWaited{{Id: uint32(h), StepNs: int64(long), StepCalls: 12}}})
				}
				if strings.Contains(out.String(), "say steps") && asked.IsZero() {
					asked = s.now.Wall
				}
				if asked.IsZero() {
					s.do("after", []string{"5s"})
				}
			}
			s.do("after", []string{"2s"})
			if text := out.String(); strings.Count(text, "say steps have taken 1.3 s for 60 s, 1 s before (30 % slower") != 1 || s.run.inquiry.what != whoSlows || s.run.inquiry.open == nil {
				t.Fatalf("it says\n%s", text)
			}
			ahead := []time.Duration{0, time.Hour, -time.Hour}
			for h := range 3 {
				g := &apiv1.FlightGroup{Name: "0"}
				for i := range 64 {
					at := s.now.Wall.Add(time.Duration(i-64)*time.Second/2 + ahead[h] + time.Duration(h/2)*300*time.Millisecond)
					g.Calls = append(g.Calls, &apiv1.FlightCall{Seq: uint64(i + 1), AtNs: at.UnixNano()})
				}
				if c.records {
					from(h, &apiv1.Flight{Rank: uint32(h), Groups: []*apiv1.FlightGroup{g}})
				}
			}
			for h := range 3 {
				from(h, &apiv1.Waits{Id: s.run.inquiry.id, AskedNs: asked.Add(ahead[h] + time.Millisecond).UnixNano(), AnsweredNs: s.now.Wall.Add(ahead[h] - time.Millisecond).UnixNano()})
			}
			if text := out.String(); !strings.Contains(text, c.want) {
				t.Errorf("it says\n%s", text)
			}
			if stand := s.run.Stand(); stand.Step != 1300*time.Millisecond || (stand.For[2] == "w2") != c.records || stand.For[0] != "" {
				t.Errorf("%+v", stand)
			}
		})
	}
}
