package run

import (
	"slices"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/job"
)

func TestSignals(t *testing.T) {
	const (
		INT, TERM, HUP, USR1, TSTP, CONT, STOP = job.SIGINT, job.SIGTERM, job.SIGHUP, job.SIGUSR1,
			job.SIGTSTP, job.SIGCONT, job.SIGSTOP
	)
	type step struct {
		sig     int
		forward []int
		grace   bool
		kill    bool
	}
	sigs := func(s ...int) []int { return s }
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"plain ones are forwarded", []step{{HUP, sigs(HUP), false, false}, {USR1, sigs(USR1), false, false}, {CONT, sigs(CONT), false, false}}},
		{"second Ctrl-C kills", []step{{INT, sigs(INT), true, false}, {INT, nil, false, true}, {INT, nil, false, true}}},
		{"Ctrl-\\ and then Ctrl-C", []step{{job.SIGQUIT, sigs(job.SIGQUIT), true, false}, {INT, nil, false, true}}},
		{"INT after TERM kills", []step{{TERM, sigs(TERM), true, false}, {INT, nil, false, true}}},
		{"stop and go on", []step{{TSTP, sigs(STOP), false, false}, {CONT, sigs(CONT), false, false}, {TSTP, sigs(STOP), false, false}}},
		{"second Ctrl-Z goes on", []step{{TSTP, sigs(STOP), false, false}, {TSTP, sigs(CONT), false, false}}},
		{"stopped ranks act on TERM", []step{{TSTP, sigs(STOP), false, false}, {TERM, sigs(TERM, CONT), true, false}}},
		{"others do nothing", []step{{17, nil, false, false}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := signalState{pid: 42, termAs: TERM}
			for i, st := range tt.steps {
				a := s.on(st.sig, time.Duration(i)*time.Second)
				if !slices.Equal(a.forward, st.forward) || a.grace != st.grace || a.kill != st.kill {
					t.Errorf("step %d: %+v, want %+v", i, a, st)
				}
			}
		})
	}
	s := signalState{termAs: TERM}
	s.on(INT, time.Minute)
	if a := s.on(INT, time.Minute+echo/2); a.kill {
		t.Error("the double of an INT kills")
	}
	if a := s.on(TERM, time.Minute+echo/2); !a.kill {
		t.Error("TERM after INT does not kill")
	}
	s = signalState{termAs: USR1}
	if a := s.on(TERM, time.Minute); !slices.Equal(a.forward, sigs(USR1)) {
		t.Errorf("TERM is told as %v", a.forward)
	}
	if a := s.on(TERM, time.Minute+echoTerm/2); a.kill {
		t.Error("the double of a TERM kills")
	}
	if a := s.on(TERM, time.Minute+echoTerm); !a.kill {
		t.Error("a second TERM does not kill")
	}
	s = signalState{pid: 42, termAs: TERM}
	if say := s.on(TSTP, 0).say; say == "" {
		t.Error("TSTP does not say how to go on")
	}
}
