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
