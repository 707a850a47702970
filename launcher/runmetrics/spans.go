package runmetrics

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/report"
)

// Helper is the program that sends spans and metrics by OTLP. It stands beside mpiup, which has nothing of OpenTelemetry itself.
const Helper = "mpiup-otel"

// Finished is a run that is over, as Helper reads it on its standard input: one JSON object of at most MaxFinished bytes.
type Finished struct {
	Version  int                `json:"version"`   // FinishedVersion
	Trace    string             `json:"trace"`     // TRACEPARENT's form, of the run's own span
	Parent   string             `json:"parent"`    // of what started the launcher; "": nobody recorded that
	State    string             `json:"state"`     // TRACESTATE
	Space    string             `json:"namespace"` // of Kubernetes; "": outside
	Node     string             `json:"node"`      // the launcher's; "": unknown
	Values   map[string]float64 `json:"values"`    // of --watch
	Restarts int                `json:"restarts"`
	Report   *report.Report     `json:"report"`
}

// FinishedVersion is the number of the form of a Finished. Another form is refused: mpiup-otel comes with mpiup.
const FinishedVersion = 2

// Bounds.
const (
	MaxFinished = 32 << 20        // bytes
	SendBound   = 2 * time.Second // that the end of a run waits for Helper
)

// Telemetry is what mpiup sends by OTLP once a run is over, and where from its trace comes.
type Telemetry struct {
	// Ask runs Helper, which reads text, and gives what it says of an end other than success. When ctx ends it is killed.
	Ask    func(ctx context.Context, text []byte) (said string, err error)
	On     bool      // OTEL_* say where to, and no one forbids it
	Parent job.Trace // of the launcher's environment; zero: none
	Run    job.Trace // the run's own place; zero: neither Parent nor On
	Space  string    // Kubernetes' namespace
	Node   string    // the launcher's
}

// exporters are the variables by which OTLP is told where to go, each with the one that names the exporter.
var exporters = map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "OTEL_METRICS_EXPORTER"}

// Sends says which signals the environment asks for, by the specification's variables: an endpoint is named, the exporter is otlp or not said,
// and the SDK is not disabled.
func Sends(getenv func(string) string) (traces, metrics bool) {
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") {
		return false, false
	}
	on := func(endpoint string) bool {
		names := getenv(exporters[endpoint])
		said := slices.ContainsFunc(strings.Split(names, ","), func(n string) bool { return strings.TrimSpace(n) == "otlp" })
		return (said || strings.TrimSpace(names) == "") && getenv(endpoint)+getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != ""
	}
	return on("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), on("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
}

// TelemetryOf is what the environment asks for; who asks Helper is the caller's to say. A TRACEPARENT that is none is told of, and ignored.
func TelemetryOf(getenv func(string) string, say func(format string, args ...any)) (t Telemetry) {
	traces, metrics := Sends(getenv)
	if parent := getenv("TRACEPARENT"); parent != "" {
		var err error
		if t.Parent, err = job.ParseTrace(parent, getenv("TRACESTATE")); err != nil {
			say("TRACEPARENT is ignored: %v", err)
		}
	}
	t.On, t.Node = traces || metrics, getenv("NODE_NAME")
	if t.Parent.IsZero() && !t.On {
		return t
	}
	if t.Run = t.Parent; t.Run.IsZero() {
		rand.Read(t.Run.ID[:])
		t.Run.Flags = 1
	}
	rand.Read(t.Run.Span[:]) // several runs of one script have one parent
	return t
}

// Watch has what is known of the run at its end kept by m, a new one where there is none, and sent by last. Where nothing is to be sent m stays as
// it is, and last does nothing.
func (t Telemetry) Watch(m *Metrics, version string, say func(format string, args ...any)) (watching *Metrics, last func()) {
	if t.On && t.Ask == nil {
		say("OTEL_EXPORTER_OTLP_* ask for spans and metrics, and nothing is sent: %s is not beside mpiup (its image has it, and mpiup install copies it)",
			Helper)
	}
	if !t.On || t.Ask == nil {
		return m, func() {}
	}
	if m == nil {
		m = New(version)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.out.telemetry = &t
	return m, func() { m.Send(say) }
}

// Send hands the run to Helper, and waits for it for SendBound. say tells what went wrong.
func (m *Metrics) Send(say func(format string, args ...any)) {
	m.mu.Lock()
	t, r := m.out.telemetry, m.out.left
	var f Finished
	if r != nil {
		f = Finished{Version: FinishedVersion, Trace: t.Run.String(), Parent: t.Parent.String(), State: t.Run.State, Space: t.Space, Node: t.Node,
			Restarts: m.out.again, Report: r}
		if m.values != nil {
			f.Values = finite(m.values())
		}
	}
	m.mu.Unlock()
	if r == nil {
		return
	}
	if why := sent(t, f); why != nil {
		say("what this run did was not sent by OTLP: %v", why)
	}
}

// finite are the values that JSON can tell.
func finite(values map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for name, v := range values {
		if v-v == 0 {
			out[name] = v
		}
	}
	return out
}

func sent(t *Telemetry, f Finished) error {
	r := *f.Report
	r.Curves, r.Memory, r.Waits, r.Events = nil, nil, nil, nil // spans need the times of ranks and phases
	r.Rows = slices.Clone(r.Rows)
	for i, w := range r.Rows {
		r.Rows[i].At, r.Rows[i].Did = nil, ""
		for k, at := range w.At {
			if w.Did[k] == report.Starts || w.Did[k] == report.Over {
				r.Rows[i].At, r.Rows[i].Did = append(r.Rows[i].At, at), r.Rows[i].Did+string(w.Did[k])
			}
		}
	}
	r.Ranks = slices.Clone(r.Ranks)
	for i := range r.Ranks {
		r.Ranks[i].Last = nil
	}
	f.Report = &r
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	if len(text) > MaxFinished {
		return fmt.Errorf("it is %d bytes, and %d are the most", len(text), MaxFinished)
	}
	ctx, cancel := awake.Within(context.Background(), SendBound)
	defer cancel()
	said, err := t.Ask(ctx, text)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("no answer in %v; OTEL_SDK_DISABLED=true sends nothing", SendBound)
	case said != "":
		return errors.New(visible.Line(said))
	}
	return err
}
