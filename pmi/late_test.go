package pmi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mpiup/mpiup/pmi"
	"github.com/mpiup/mpiup/pmi/kvs"
)

// failing is a connection whose writes fail once they were counted down.
type failing struct {
	net.Conn
	left int
}

var errNoRoom = errors.New("no buffer space available")

func (f *failing) Write(b []byte) (int, error) {
	if f.left--; f.left < 0 {
		return 0, errNoRoom
	}
	return f.Conn.Write(b)
}

// A rank that cannot be answered is hung up on, whatever it has asked in whichever dialect.
func TestWhoCannotBeAnsweredIsHungUpOn(t *testing.T) {
	const fullInit = "cmd=fullinit;pmijobid=x;pmirank=0;threaded=FALSE;"
	v2 := func(s string) string { return fmt.Sprintf("%6d%s", len(s), s) }
	for _, tt := range []struct {
		name     string
		requests []string // those before the last are answered
	}{
		{"init", []string{"cmd=init pmi_version=1 pmi_subversion=1\n"}},
		{"get", []string{"cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=get kvsname=test key=none\n"}},
		{"barrier", []string{"cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=barrier_in\n"}},
		{"finalize", []string{"cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=finalize\n"}},
		{"an unknown request", []string{"cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=what\n"}},
		{"fullinit", []string{"cmd=init pmi_version=2 pmi_subversion=0\n", v2(fullInit)}},
		{"kvs-fence", []string{"cmd=init pmi_version=2 pmi_subversion=0\n", v2("cmd=kvs-fence;")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				defer ours.Close()
				served := serveOne(t, &failing{theirs, len(tt.requests) - 1}, pmi.Hooks{})
				for i, r := range tt.requests {
					if _, err := io.WriteString(ours, r); err != nil {
						t.Fatal(err)
					}
					if i < len(tt.requests)-1 {
						if _, err := ours.Read(make([]byte, 4096)); err != nil {
							t.Fatal(err)
						}
					}
				}
				begin := time.Now()
				_ = ours.SetReadDeadline(begin.Add(time.Hour)) // virtual
				if b, err := io.ReadAll(ours); err != nil || len(b) != 0 {
					t.Errorf("it gets %q, %v after %v", b, err, time.Since(begin))
				}
				<-served
			})
		})
	}
	t.Run("PMI_PORT", func(t *testing.T) {
		_, theirs := net.Pipe()
		if err := pmi.Welcome(&failing{theirs, 0}, 3, 4); !errors.Is(err, errNoRoom) {
			t.Errorf("its caller, who hangs up, is told %v", err)
		}
	})
}

// serveOne serves rank 0 of a job of one rank.
func serveOne(t *testing.T, conn net.Conn, hooks pmi.Hooks) (served chan error) {
	engine := kvs.New(kvs.Run{})
	space, err := engine.Add(kvs.Job{KVSName: "test", Size: 1, Local: []int{0}})
	if err != nil {
		t.Fatal(err)
	}
	served = make(chan error, 1)
	go func() {
		defer space.Close(nil)
		defer conn.Close()
		served <- pmi.New(pmi.Job{Space: space, Hooks: hooks}).Serve(context.Background(), conn, 0)
	}()
	return served
}

// A rank that has taken its leave and waits for no answer, since its server is late, has finalized: what it said before it went is read,
// though it cannot be answered.
func TestTheLastWordOfARankThatHasGone(t *testing.T) {
	for _, tt := range []struct {
		name, says string
		finalized  bool
	}{
		{"finalized", "cmd=init pmi_version=1 pmi_subversion=1\ncmd=get_maxes\ncmd=finalize\n", true},
		{"has not", "cmd=init pmi_version=1 pmi_subversion=1\ncmd=get_maxes\n", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ours, theirs := socketPair(t)
			if _, err := theirs.WriteString(tt.says); err != nil {
				t.Fatal(err)
			}
			theirs.Close()
			finalized := false
			err := <-serveOne(t, ours, pmi.Hooks{OnFinalize: func(int) { finalized = true }})
			var unfinished *pmi.UnfinishedError
			if finalized != tt.finalized || errors.As(err, &unfinished) == tt.finalized {
				t.Errorf("finalized: %v, %v", finalized, err)
			}
		})
	}
}
