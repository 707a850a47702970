package launcher

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/wire"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/link"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/launcher/run/phases"
	"github.com/mpiup/mpiup/launcher/survey"
)

// mute is an agent that answers nothing, and the stream to it.
type mute struct {
	survey.Agent
	wire.Stream
}

func (mute) Send(*apiv1.Frame) error { return nil }

func (mute) Hello(ctx context.Context) (*apiv1.HelloReply, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (mute) Checkup(ctx context.Context, _ *apiv1.CheckupRequest) (*apiv1.CheckupReply, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A look that a signal, --timeout or --wait ends draws nothing and judges nobody. Its --wait begins with it.
func TestLooksThatAreCutShort(t *testing.T) {
	for _, tt := range []struct {
		name    string
		change  func(*Config)
		signal  os.Signal
		code    int
		says    string
		minimum time.Duration
	}{
		{"signal", func(*Config) {}, syscall.SIGINT, 130, "got SIGINT while", 0},
		{"timeout", func(c *Config) { c.Timeout = time.Second }, nil, job.ExitTimeout, "--timeout 1s ran out while", time.Second},
		{"wait", func(c *Config) { c.Wait = 2 * time.Second }, nil, job.ExitConnect, "--wait 2s ran out while", 2 * time.Second},
	} {
		for _, look := range []string{"--preflight", "--svg"} {
			t.Run(tt.name+" "+look, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					signals := make(chan os.Signal, 1)
					if tt.signal != nil {
						signals <- tt.signal
					}
					var out bytes.Buffer
					cfg := &Config{Picture: "-", Signals: signals,
						Reach: reach.Reach{Wait: time.Hour, Here: mute{}, Log: slog.New(slog.DiscardHandler), Stdout: &out, Stderr: &out}}
					cfg.Apps = []job.App{{Argv: []string{"true"}}}
					tt.change(cfg)
					r := &planner{cfg: cfg, begun: time.Now(), plan: &job.Plan{Hosts: []job.Host{{Name: "w0"}}},
						course: &phases.Run{Again: &phases.Again{Begins: time.Now().Add(-time.Hour)}}}
					have := []reach.Found{{Wanted: hosts.Wanted{Entry: hostlist.Entry{Name: "w0"}}, Session: &link.Session{Stream: mute{}}, Wait: func() {}}}
					begin, act := time.Now(), r.preflight
					if look == "--svg" {
						act = r.picture
					}
					var f *reach.Failure
					if err := act(t.Context(), have); !errors.As(err, &f) || f.Code != tt.code || !strings.Contains(f.Lines[0], tt.says+" "+look) {
						t.Errorf("%v", err)
					}
					if took := time.Since(begin); took < tt.minimum || out.Len() > 0 {
						t.Errorf("after %v: %s", took, out.String())
					}
				})
			})
		}
	}
}
