package survey

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/launcher/doctor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is an agent that finds nothing wrong.
type fake struct {
	name     string
	checkup  error
	answer   error
	unclosed error

	mu    sync.Mutex
	open  bool     // its port, guarded by mu
	asked []string // hosts it was to ask, guarded by mu
	ranks uint32   // it was told of, guarded by mu
}

func (f *fake) Hello(context.Context) (*apiv1.HelloReply, error) {
	return &apiv1.HelloReply{Name: f.name, ClockNs: time.Now().UnixNano()}, nil
}

func (f *fake) Checkup(_ context.Context, r *apiv1.CheckupRequest) (*apiv1.CheckupReply, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ranks = r.Ranks
	return &apiv1.CheckupReply{Host: &apiv1.HelloReply{Name: f.name}}, f.checkup
}

func (f *fake) Ask(_ context.Context, r *apiv1.AskRequest) (*apiv1.AskReply, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	reply := &apiv1.AskReply{}
	for _, t := range r.Targets {
		f.asked = append(f.asked, t.Host+"="+t.Addresses[0])
		reply.Ways = append(reply.Ways, &apiv1.Way{Host: t.Host, RttNs: 1000})
	}
	return reply, nil
}

func (f *fake) Answer(context.Context, *apiv1.AnswerRequest) ([]string, func() error, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.answer != nil {
		return nil, nil, f.answer
	}
	f.open = true
	return []string{f.name + ":1"}, func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.open = false
		return f.unclosed
	}, nil
}

func hosts(fakes ...*fake) (list []Host) {
	for i, f := range fakes {
		f.name = fmt.Sprintf("w%d", i)
		list = append(list, Host{Name: f.name, Ranks: i + 1, Agent: f})
	}
	return list
}

func TestNoPortStaysOpen(t *testing.T) {
	for _, measure := range []bool{false, true} {
		fakes := []*fake{{}, {}, {}}
		seen := Look(t.Context(), hosts(fakes...), Config{Measure: measure})
		if len(seen.Ways) != 6 || seen.Usage {
			t.Errorf("measure %v: %+v", measure, seen)
		}
		for i, f := range fakes {
			slices.Sort(f.asked)
			if f.open || len(f.asked) != 2 || f.ranks != uint32(i+1) || seen.Hosts[i].Ranks != i+1 {
				t.Errorf("%s: open %v, asked %v, told of %d ranks", f.name, f.open, f.asked, f.ranks)
			}
		}
	}
}

// What could not be looked at is a failure with its reason, never nothing.
func TestWhatCouldNotBeLookedAt(t *testing.T) {
	for _, tt := range []struct {
		name  string
		sick  *fake
		check string
		text  string // of the row
		usage bool
	}{
		{"an agent that cannot tell", &fake{checkup: errors.New("no /proc")}, "agent", "no /proc", false},
		{"a command line that does not fit", &fake{checkup: &UsageError{"no such interface"}}, "command line", "no such interface", true},
		{"an agent that cannot answer", &fake{answer: errors.New("no port of 18000-18000 is free")}, "reachable", "it cannot answer: no port of 18000-18000 is free", false},
		{"a port that may stay open", &fake{unclosed: errors.New("the connection broke")}, "reachable", "has closed the port at which it answered: the connection broke", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			seen := Look(t.Context(), hosts(&fake{}, tt.sick, &fake{}), Config{})
			r := doctor.Judge(seen.Hosts, seen.Ways)
			i := slices.IndexFunc(r.Rows, func(row doctor.Row) bool {
				return row.Check == tt.check && row.Verdict == doctor.Fail && strings.Contains(row.Text, tt.text) && slices.Equal(row.Hosts, []string{"w1"})
			})
			if i < 0 || r.Verdict != doctor.Fail || seen.Usage != tt.usage {
				t.Errorf("usage %v, %+v", seen.Usage, r.Rows)
			}
		})
	}
}

// A host that was not reached, and one without ranks, are in the result and are asked nothing.
func TestHostsThatAreNotAsked(t *testing.T) {
	list := append(hosts(&fake{}), Host{Name: "w1", Error: errors.New("connection refused")}, Host{Name: "w2"})
	seen := Look(t.Context(), list, Config{})
	if len(seen.Hosts) != 3 || seen.Hosts[1].Error != "connection refused" || seen.Hosts[2].Error != "" || len(seen.Ways) != 0 {
		t.Errorf("%+v", seen)
	}
}
