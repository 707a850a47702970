package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/contrib/propagators/envcar"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/report"
	"github.com/mpiup/mpiup/launcher/runmetrics"
	"github.com/mpiup/mpiup/launcher/verdict"
	"github.com/mpiup/mpiup/test/golden"
)

// collector takes what is sent by OTLP, by HTTP and by gRPC.
type collector struct {
	collectortrace.UnimplementedTraceServiceServer
	traces  []*tracepb.ResourceSpans
	metrics []*metricspb.ResourceMetrics
	headers []string
}

// Export takes spans by gRPC.
func (c *collector) Export(_ context.Context, r *collectortrace.ExportTraceServiceRequest) (*collectortrace.ExportTraceServiceResponse, error) {
	c.traces = append(c.traces, r.ResourceSpans...)
	return &collectortrace.ExportTraceServiceResponse{}, nil
}

type metricsService struct {
	collectormetrics.UnimplementedMetricsServiceServer
	c *collector
}

// Export takes metrics by gRPC.
func (m metricsService) Export(_ context.Context, r *collectormetrics.ExportMetricsServiceRequest) (*collectormetrics.ExportMetricsServiceResponse, error) {
	m.c.metrics = append(m.c.metrics, r.ResourceMetrics...)
	return &collectormetrics.ExportMetricsServiceResponse{}, nil
}

func (c *collector) http(t *testing.T) (url string) {
	t.Helper()
	turns := make(chan struct{}, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		turns <- struct{}{}
		defer func() { <-turns }()
		body := r.Body
		if r.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(body)
			if err != nil {
				t.Error(err)
				return
			}
			body = z
		}
		text, err := io.ReadAll(body)
		if err != nil {
			t.Error(err)
		}
		c.headers = append(c.headers, r.Header.Get("X-Team"))
		var spans collectortrace.ExportTraceServiceRequest
		var values collectormetrics.ExportMetricsServiceRequest
		switch r.URL.Path {
		case "/v1/traces":
			err = proto.Unmarshal(text, &spans)
		case "/v1/metrics":
			err = proto.Unmarshal(text, &values)
		default:
			err = fmt.Errorf("POST %s", r.URL.Path)
		}
		if err != nil {
			t.Error(err)
		}
		c.traces, c.metrics = append(c.traces, spans.ResourceSpans...), append(c.metrics, values.ResourceMetrics...)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func (c *collector) grpc(t *testing.T) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	collectortrace.RegisterTraceServiceServer(s, c)
	collectormetrics.RegisterMetricsServiceServer(s, metricsService{c: c})
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}

const traceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// finished is a run of two ranks on two hosts that was started again once, and then failed.
func finished() *runmetrics.Finished {
	begun := time.Date(2026, 11, 26, 4, 0, 0, 0, time.UTC)
	at := func(s float64) time.Time { return begun.Add(time.Duration(s * float64(time.Second))) }
	rank := 1
	return &runmetrics.Finished{Version: runmetrics.FinishedVersion, Trace: "00-0af7651916cd43dd8448eb211c80319c-00000000000000aa-01", Parent: traceParent, State: "a=1", Space: "team", Node: "n0",
		Values: map[string]float64{"step": 7}, Restarts: 1,
		Report: &report.Report{Mark: report.Mark, Version: report.Version, Mpiup: "v1", Job: "j", Command: []string{"mpiup", "run", "--token=***", "./a.out"}, Launcher: "pi-launcher-0", Begun: begun, Ended: at(20), ExitCode: 3,
			Verdict:  &verdict.Verdict{Kind: verdict.ExitCode, Evidence: []string{"rank 1 on w1 exited with code 3: reboot"}, ExitCode: 3, Rank: &rank, Host: "w1"},
			Hosts:    []report.Host{{Name: "w0", Node: "n0", Answered: at(0.4)}, {Name: "w1", Node: "n1", Answered: at(12)}}, /* the second joined for the second attempt */
			Restarts: []report.Restart{{At: 12.5, Kind: verdict.Killed, Why: "rank 0 was killed", Ranks: 2}},
			Ranks:    []report.Rank{{Rank: 0, Host: "w0", PID: 10, End: "signal 15 (SIGTERM)"}, {Rank: 1, Host: "w1", PID: 11, End: "exit code 3"}},
			Course: report.Course{
				Phases: []report.Phase{{Phase: "gathering", At: 0}, {Phase: "placing", At: 1}, {Phase: "launching", At: 1.5}, {Phase: "wiring", At: 2}, {Phase: "running", At: 3},
					{Phase: "stopping", At: 10}, {Phase: "done", At: 11}, {Phase: "gathering", At: 11}, {Phase: "launching", At: 13}, {Phase: "running", At: 14}, {Phase: "done", At: 20}},
				Rows: []report.Row{{Rank: 0, Host: "w0", At: []float64{1.7, 9, 13.5, 20}, Did: "sese"},
					{Rank: 1, Host: "w1", At: []float64{1.9, 10.5, 13.6, 19}, Did: "sese"}}}}}
}

// sends runs the helper over a run with these variables.
func sends(t *testing.T, f any, env map[string]string) (code int, said string) {
	t.Helper()
	text, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	for name := range env {
		t.Setenv(name, env[name]) // which the exporters read themselves
	}
	var stderr bytes.Buffer
	code = run(nil, func(name string) string { return env[name] }, bytes.NewReader(text), &stderr)
	return code, stderr.String()
}

// tree is the spans as text, those of one parent by their begin.
func tree(t *testing.T, c *collector) string {
	t.Helper()
	var spans []*tracepb.Span
	var b strings.Builder
	for _, r := range c.traces {
		fmt.Fprintf(&b, "resource %s\n", attributes(r.Resource.Attributes, "telemetry.sdk"))
		for _, s := range r.ScopeSpans {
			fmt.Fprintf(&b, "scope %s %s\n", s.Scope.Name, s.Scope.Version)
			spans = append(spans, s.Spans...)
		}
	}
	begun := finished().Report.Begun
	second := func(ns uint64) float64 { return time.Unix(0, int64(ns)).Sub(begun).Seconds() }
	var below func(parent []byte, depth string)
	below = func(parent []byte, depth string) {
		for _, s := range spans {
			if !bytes.Equal(s.ParentSpanId, parent) {
				continue
			}
			if fmt.Sprintf("%x", s.TraceId) != "0af7651916cd43dd8448eb211c80319c" {
				t.Errorf("span %s is of trace %x", s.Name, s.TraceId)
			}
			status := ""
			if s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
				status = fmt.Sprintf(" ERROR %q", s.Status.Message)
			}
			fmt.Fprintf(&b, "%s%s %g-%g %s%s\n", depth, s.Name, second(s.StartTimeUnixNano), second(s.EndTimeUnixNano), attributes(s.Attributes, " "), status)
			below(s.SpanId, depth+"  ")
		}
	}
	slices.SortStableFunc(spans, func(a, b *tracepb.Span) int { return int(a.StartTimeUnixNano) - int(b.StartTimeUnixNano) })
	below([]byte{0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31}, "")
	return b.String()
}

func attributes(list []*commonpb.KeyValue, but string) string {
	all := map[string]string{}
	for _, kv := range list {
		if strings.HasPrefix(kv.Key, but) {
			continue
		}
		switch v := kv.Value.Value.(type) {
		case *commonpb.AnyValue_StringValue:
			all[kv.Key] = v.StringValue
		case *commonpb.AnyValue_IntValue:
			all[kv.Key] = fmt.Sprint(v.IntValue)
		case *commonpb.AnyValue_ArrayValue:
			for _, e := range v.ArrayValue.Values {
				all[kv.Key] += e.GetStringValue() + ","
			}
		}
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, "%s=%s ", name, all[name])
	}
	return strings.TrimSpace(b.String())
}

func values(c *collector) string {
	var lines []string
	for _, r := range c.metrics {
		for _, s := range r.ScopeMetrics {
			for _, m := range s.Metrics {
				for _, p := range m.GetGauge().GetDataPoints() {
					lines = append(lines, fmt.Sprintf("%s %g %s %s\n", m.Name, p.GetAsDouble(), m.Unit, attributes(p.Attributes, " ")))
				}
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// A run is told in spans and metrics, the same by HTTP and by gRPC, with the names that docs/data/telemetry.tsv has.
func TestRunIsSent(t *testing.T) {
	for _, protocol := range []string{"http/protobuf", "grpc"} {
		t.Run(strings.ReplaceAll(protocol, "/", " "), func(t *testing.T) {
			c := &collector{}
			env := map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": protocol, "OTEL_EXPORTER_OTLP_HEADERS": "x-team=red", "OTEL_RESOURCE_ATTRIBUTES": "team=red"}
			if protocol == "grpc" {
				env["OTEL_EXPORTER_OTLP_ENDPOINT"] = c.grpc(t)
			} else {
				env["OTEL_EXPORTER_OTLP_ENDPOINT"] = c.http(t)
			}
			if code, said := sends(t, finished(), env); code != 0 || said != "" {
				t.Fatalf("%d, %q", code, said)
			}
			got := tree(t, c) + values(c)
			golden.Is(t, "testdata/run.txt", got)
			if protocol != "grpc" && !slices.Equal(c.headers, []string{"red", "red"}) {
				t.Errorf("headers %q", c.headers)
			}
			rows, err := os.ReadFile("../../docs/data/telemetry.tsv")
			if err != nil {
				t.Fatal(err)
			}
			for _, word := range strings.Fields(got) {
				name, _, _ := strings.Cut(word, "=")
				if (strings.HasPrefix(name, "mpiup.") || strings.HasPrefix(name, "k8s.") || strings.HasPrefix(name, "process.") || strings.HasPrefix(name, "error.")) &&
					!strings.Contains(string(rows), "\n"+name+"\t") {
					t.Errorf("docs/data/telemetry.tsv has no row of %s", name)
				}
			}
		})
	}
}

// What is not asked for is not sent, and a run that its parent does not record leaves no span.
func TestAskedForAlone(t *testing.T) {
	unrecorded := finished()
	unrecorded.Trace, unrecorded.Parent = strings.TrimSuffix(unrecorded.Trace, "1")+"0", strings.TrimSuffix(traceParent, "1")+"0"
	for _, tt := range []struct {
		name            string
		run             *runmetrics.Finished
		env             map[string]string
		traces, metrics bool
	}{
		{"all", finished(), nil, true, true},
		{"no traces", finished(), map[string]string{"OTEL_TRACES_EXPORTER": "none"}, false, true},
		{"no metrics", finished(), map[string]string{"OTEL_METRICS_EXPORTER": "none", "OTEL_TRACES_EXPORTER": "otlp"}, true, false},
		{"nothing", finished(), map[string]string{"OTEL_SDK_DISABLED": "true"}, false, false},
		{"not recorded", unrecorded, nil, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &collector{}
			env := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.http(t)}
			maps.Copy(env, tt.env)
			if code, said := sends(t, tt.run, env); code != 0 || said != "" {
				t.Fatalf("%d, %q", code, said)
			}
			if (c.traces != nil) != tt.traces || (c.metrics != nil) != tt.metrics {
				t.Errorf("%d and %d messages", len(c.traces), len(c.metrics))
			}
		})
	}
}

// What goes wrong is said in a line, and in time.
func TestNotSent(t *testing.T) {
	hangs, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hangs.Close()
	other := finished()
	other.Version = 7
	crooked := finished()
	crooked.Report.Rows[0].Did = "s"
	for _, tt := range []struct {
		name string
		run  any
		env  map[string]string
		says string
	}{
		{"nobody there", finished(), map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, "refused"},
		{"an endpoint that hangs", finished(), map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + hangs.Addr().String()}, "no answer in 1.8s"},
		{"another protocol", finished(), map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, "http/json"},
		{"another build", other, nil, "one build"},
		{"a crooked row", crooked, nil, "its rows or curves are too long, or lack parts"},
		{"no run", "text", nil, "standard input"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			begun := time.Now()
			code, said := sends(t, tt.run, tt.env)
			if code != 1 || !strings.HasPrefix(said, "mpiup-otel: ") || !strings.Contains(said, tt.says) {
				t.Errorf("%d, %q", code, said)
			}
			if took := time.Since(begun); took > 10*time.Second { // patience, on a slow machine
				t.Errorf("it took %v", took)
			}
		})
	}
	if code := run([]string{"--help"}, os.Getenv, nil, io.Discard); code != 2 {
		t.Errorf("%d with an argument", code)
	}
}

// What a rank is told is what OpenTelemetry's own carrier of the environment reads, and names the rank's span.
func TestRanksTraceParent(t *testing.T) {
	from, err := job.ParseTrace(finished().Trace, "a=1")
	if err != nil {
		t.Fatal(err)
	}
	is := from.Attempt(1).Rank(0, 1)
	t.Setenv("TRACEPARENT", is.String())
	t.Setenv("TRACESTATE", is.State)
	got := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(t.Context(), &envcar.Carrier{}))
	if !got.IsValid() || !got.IsSampled() || got.TraceID() != is.ID || got.SpanID() != is.Span || got.TraceState().String() != "a=1" {
		t.Errorf("%+v", got)
	}
	c := &collector{}
	if code, said := sends(t, finished(), map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.http(t)}); code != 0 {
		t.Fatal(said)
	}
	for _, r := range c.traces {
		for _, s := range r.ScopeSpans[0].Spans {
			if bytes.Equal(s.SpanId, is.Span[:]) && s.Name == "rank" {
				return
			}
		}
	}
	t.Error("no span of that rank")
}
