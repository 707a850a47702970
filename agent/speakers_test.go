package agent

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

// A rank may speak before its start is noted, and then is waited for.
func TestARankSpeaksBeforeItsStartIsNoted(t *testing.T) {
	for _, tt := range []struct {
		name string
		then func(*step)
		ok   bool
	}{
		{"it is noted", func(st *step) { st.note(&proc{spec: &apiv1.Proc{Rank: 1}}) }, true},
		{"another is noted, then it", func(st *step) {
			st.note(&proc{spec: &apiv1.Proc{}})
			synctest.Wait()
			st.note(&proc{spec: &apiv1.Proc{Rank: 1}})
		}, true},
		{"it was the last that could not be started", func(st *step) { close(st.over) }, false},
		{"the job is over", func(st *step) { st.kill() }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newStep(nil, parsed(&apiv1.Launch{Job: &apiv1.Job{}, Exec: &apiv1.Exec{}}))
				defer st.kill()
				got := make(chan *proc)
				go func() { got <- st.started(1) }()
				synctest.Wait()
				tt.then(st)
				if p := <-got; (p != nil) != tt.ok {
					t.Errorf("got %v", p)
				}
			})
		})
	}
}

// This process is none of the ranks of any session, and its connection is refused.
func TestAStrangerMayNotSpeak(t *testing.T) {
	a := newAgent(t)
	c := newClient(t, a, '1', "life-1")
	c.dial(false)
	c.launch(1, 1, "exec sleep 1000")
	c.until(started)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	mine, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	theirs, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	a.mu.Lock()
	s := a.sessions[c.open.Session]
	a.mu.Unlock()
	if err := s.maySpeak(context.Background(), theirs); err == nil || !strings.Contains(err.Error(), "none of this host's ranks") {
		t.Error(err)
	}
	mine.Close()
	if err := s.maySpeak(context.Background(), theirs); err == nil || !strings.Contains(err.Error(), "or closed") {
		t.Error(err)
	}
}
