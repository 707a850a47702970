package session

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/wire"
)

// A second connection of a session, which its launcher has left before an agent with little CPU came to it, does not end the one that
// carries: not where the agent sees that before it answers, nor where the launcher goes while the answer is on its way.
func TestSecondConnectionThatWasLeft(t *testing.T) {
	for _, tt := range []struct {
		name  string
		early bool // it had left before the agent answered
	}{{"before the answer", true}, {"after the answer", false}} {
		t.Run(tt.name, func(t *testing.T) {
			var left atomic.Bool
			table, _ := tableOf(t, func(c *Config) { c.Left = func(net.Addr) bool { return left.Load() } })
			c := newClient(t, table, '1', "life-1")
			c.peer = &identity.Peer{Role: identity.RoleLauncher, Name: "launcher"}
			c.dial(false)
			c.launch(1, 1, `read x; echo heard $x`)
			c.pid()
			left.Store(tt.early)
			ctx, cancel := context.WithCancel(t.Context())
			mine, theirs, leave, endTheirs := wire.Pipe(ctx)
			over := make(chan error, 1)
			go func() { over <- table.Attach(ctx, theirs, c.caller()); endTheirs() }()
			if err := mine.Send((&apiv1.Open{Protocol: apiv1.Protocol, Session: c.open.Session, Secret: c.open.Secret,
				Incarnation: c.open.Incarnation, Resume: true, Received: c.link.Received()}).Frame()); err != nil {
				t.Fatal(err)
			}
			if f, err := mine.Recv(); err != nil || f.GetOpened() == nil {
				t.Fatal(f, err)
			}
			if !tt.early {
				leave()
			}
			if err := <-over; err == nil {
				t.Error("the second connection has carried the session")
			}
			cancel()
			c.send((&apiv1.Input{Data: []byte("you\n")}).Frame())
			if got := stdout(c.until(outputEnd)); got != "heard you\n" {
				t.Errorf("over the first came %q", got)
			}
		})
	}
}

// A rank that has said that it finalizes, and ends without waiting for the answer, has finalized, however late its agent reads that; one
// that has not is told of, at once, too, where what it started holds its connection open.
func TestLastWordOfARank(t *testing.T) {
	const begin = `printf 'cmd=init pmi_version=1 pmi_subversion=1\n' >&3; `
	for _, tt := range []struct {
		name, script string
		want         apiv1.PmiState
	}{
		{"finalized", begin + `printf 'cmd=get_maxes\ncmd=finalize\n' >&3; exit 0`, apiv1.PmiState_PMI_FINALIZED},
		{"finalized, and left a process", begin + `sleep 1000 & printf 'cmd=finalize\n' >&3; exit 0`, apiv1.PmiState_PMI_FINALIZED},
		{"has not", begin + `exit 0`, apiv1.PmiState_PMI_RUNNING},
		{"has not, and left a process", begin + `sleep 1000 & exit 0`, apiv1.PmiState_PMI_RUNNING},
		{"never spoke", `exit 0`, apiv1.PmiState_PMI_NEVER},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table := newTable(t)
			for i := range 8 {
				c := newClient(t, table, byte('1'+i), "life-1")
				c.dial(false)
				l := jobLaunch(0, 0, 1, tt.script)
				l.Job.Pmi = apiv1.Pmi_PMI_FD
				c.start(l)
				seen := c.until(exited)
				if x := seen[len(seen)-1].GetExited(); x.Pmi != tt.want || x.Code != 0 {
					t.Errorf("try %d: it ended as %v", i, x)
				}
				c.send((&apiv1.Bye{}).Frame())
				c.until(isClosed)
				c.hangUp()
			}
		})
	}
}
