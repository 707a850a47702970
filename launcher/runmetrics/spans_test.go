package runmetrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/hours"
	"github.com/mpiup/mpiup/launcher/report"
	"github.com/mpiup/mpiup/launcher/verdict"
)

func environ(list ...string) func(string) string {
	return func(name string) string {
		for _, kv := range list {
			if n, value, _ := strings.Cut(kv, "="); n == name {
				return value
			}
		}
		return ""
	}
}

// Something is sent where an endpoint is named and nobody forbids it, signal by signal.
func TestSends(t *testing.T) {
	const at = "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318"
	for _, tt := range []struct {
		name            string
		env             []string
		traces, metrics bool
	}{
		{"nothing said", nil, false, false},
		{"what clusters inject besides", []string{"OTEL_SERVICE_NAME=x", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_TRACES_EXPORTER=otlp"}, false, false},
		{"an endpoint", []string{at}, true, true},
		{"one of traces", []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://c:4318/v1/traces"}, true, false},
		{"one of metrics", []string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://c"}, false, true},
		{"disabled", []string{at, "OTEL_SDK_DISABLED=TRUE"}, false, false},
		{"not disabled", []string{at, "OTEL_SDK_DISABLED=1"}, true, true}, // true alone means it, says the specification
		{"no traces", []string{at, "OTEL_TRACES_EXPORTER=none"}, false, true},
		{"no metrics", []string{at, "OTEL_METRICS_EXPORTER=none"}, true, false},
		{"to others", []string{at, "OTEL_TRACES_EXPORTER=console", "OTEL_METRICS_EXPORTER=prometheus, otlp"}, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if traces, metrics := Sends(environ(tt.env...)); traces != tt.traces || metrics != tt.metrics {
				t.Errorf("traces %v, metrics %v", traces, metrics)
			}
		})
	}
}

func TestTelemetryOf(t *testing.T) {
	const parent = "TRACEPARENT=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
	one := TelemetryOf(environ(parent, "TRACESTATE=a=1"), t.Errorf)
	if one.On || one.Run.ID != one.Parent.ID || one.Run.Span == one.Parent.Span || one.Run.State != "a=1" || one.Run.Flags != 0 {
		t.Errorf("%+v", one)
	}
	if another := TelemetryOf(environ(parent), t.Errorf); another.Run.Span == one.Run.Span {
		t.Errorf("a second run has the place of the first: %+v", another)
	}
	root := TelemetryOf(environ("OTEL_EXPORTER_OTLP_ENDPOINT=http://c", "NODE_NAME=n0"), t.Errorf)
	if !root.On || !root.Parent.IsZero() || root.Run.IsZero() || root.Run.Flags != 1 || root.Node != "n0" {
		t.Errorf("%+v", root)
	}
	if none := TelemetryOf(environ(), t.Errorf); !none.Run.IsZero() {
		t.Errorf("%+v", none)
	}
	var said []string
	say := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	if wrong := TelemetryOf(environ("TRACEPARENT=yes"), say); len(said) != 1 || !strings.Contains(said[0], `"yes"`) || !wrong.Run.IsZero() {
		t.Errorf("%+v, %q", wrong, said)
	}
	said = nil
	m, last := root.Watch(nil, "v1", say) // nobody to ask
	if last(); m != nil || len(said) != 1 || !strings.Contains(said[0], Helper+" is not beside mpiup") {
		t.Errorf("%+v, %q", m, said)
	}
	said = nil
	if m, last := one.Watch(nil, "v1", say); m != nil || last == nil || said != nil {
		t.Errorf("%+v, %q", m, said)
	}
}

// What is handed over has phases, and of ranks when they began and ended, with nothing that they wrote.
func TestSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		k := report.New(report.Config{}, report.Report{Mpiup: "v1", Begun: begun}, slog.New(slog.DiscardHandler))
		tel := TelemetryOf(environ("OTEL_EXPORTER_OTLP_ENDPOINT=http://c"), t.Errorf)
		var got Finished
		tel.Space = "team"
		tel.Ask = func(_ context.Context, text []byte) (string, error) { return "", json.Unmarshal(text, &got) }
		m, last := tel.Watch(nil, "v1", t.Errorf)
		m.Progress(func() map[string]float64 {
			return map[string]float64{"step": 3, "loss": math.NaN(), "rate": math.Inf(1)}
		})
		k.Launched("j", []report.Program{{Argv: []string{"a"}}}, []report.Rank{{Host: "w0"}}, "one rank")
		time.Sleep(time.Second)
		k.Stands(hours.Stand{Phase: "running"})
		k.Started(0, 7)
		time.Sleep(time.Second)
		k.Ended(0, job.Exit{Code: 3})
		k.Last(0, job.Stdout, []string{"words"})
		last() // before the end there is nothing
		m.Ended(&verdict.Verdict{Kind: verdict.Killed, ExitCode: 137}, k)
		last()
		r := got.Report
		if r == nil || len(r.Rows) != 1 || r.Rows[0].Did != "se" || !slices.Equal(r.Rows[0].At, []float64{1, 2}) || r.ExitCode != 137 || len(r.Ranks) != 1 || r.Ranks[0].Last != nil || r.Events != nil {
			t.Errorf("%+v", r)
		}
		if len(r.Phases) < 2 || r.Phases[1] != (report.Phase{At: 1, Phase: "running"}) || got.Space != "team" || got.Trace != tel.Run.String() {
			t.Errorf("%+v", got)
		}
		if d := cmp.Diff(map[string]float64{"step": 3}, got.Values); d != "" {
			t.Error(d)
		}
	})
}

// The end waits two seconds at most, and says in a line what went wrong.
func TestSendIsBounded(t *testing.T) {
	for _, tt := range []struct {
		name string
		ask  func(context.Context, []byte) (string, error)
		took time.Duration
		says string
	}{
		{"it hangs", func(ctx context.Context, _ []byte) (string, error) { <-ctx.Done(); return "", ctx.Err() }, 2 * time.Second, "no answer in 2s"},
		{"it says why", func(context.Context, []byte) (string, error) { return "mpiup-otel: refused\x1b[2J", nil }, 0, `mpiup-otel: refused\u001b[2J`},
		{"it cannot be run", func(context.Context, []byte) (string, error) { return "", errors.New("exec format error") }, 0, "exec format error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var said []string
				m, last := Telemetry{On: true, Ask: tt.ask}.Watch(New("v1"), "v1", func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) })
				m.Ended(nil, report.New(report.Config{}, report.Report{}, slog.New(slog.DiscardHandler)))
				begun := time.Now()
				last()
				if took := time.Since(begun); took != tt.took {
					t.Errorf("it took %v", took)
				}
				if len(said) != 1 || !strings.Contains(said[0], tt.says) {
					t.Errorf("said %q", said)
				}
			})
		})
	}
}
