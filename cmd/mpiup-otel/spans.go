package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/report"
	"github.com/mpiup/mpiup/launcher/runmetrics"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// schema is the number of the attributes' form (docs/data/telemetry.tsv): it grows when one changes its meaning.
const schema = 1

// described is the launcher, to which OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME add.
func described(ctx context.Context, f *runmetrics.Finished) (*resource.Resource, error) {
	list := []attribute.KeyValue{attribute.String("service.name", "mpiup"), attribute.String("service.version", f.Report.Mpiup),
		attribute.Int("mpiup.schema", schema), attribute.String("host.name", f.Report.Launcher)}
	if f.Space != "" {
		list = append(list, attribute.String("k8s.namespace.name", f.Space), attribute.String("k8s.pod.name", f.Report.Launcher))
	}
	if f.Node != "" {
		list = append(list, attribute.String("k8s.node.name", f.Node))
	}
	return resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(list...), resource.WithFromEnv())
}

// words are the names of phases as spans have them, by the launcher's own.
var words = map[string]string{"gathering": "gather", "placing": "place", "launching": "launch", "wiring": "wire", "running": "run", "stopping": "stop"}

// ids gives a span the place that its context asks for, else a number of its own.
type ids struct{ next uint64 }

type wanted struct{}

func (g *ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	t, _ := ctx.Value(wanted{}).(job.Trace)
	return t.ID, t.Span
}

func (g *ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if t, ok := ctx.Value(wanted{}).(job.Trace); ok {
		return t.Span
	}
	g.next++
	parent := trace.SpanContextFromContext(ctx)
	return job.Trace{ID: parent.TraceID(), Span: parent.SpanID()}.Child("span", int(g.next)).Span
}

// tale tells a run in spans.
type tale struct {
	trace.Tracer
	f   *runmetrics.Finished
	run job.Trace
}

// sendSpans makes the spans of a run and sends them.
func sendSpans(ctx context.Context, getenv func(string) string, is *resource.Resource, f *runmetrics.Finished) error {
	out, err := spanExporter(ctx, getenv)
	if err != nil {
		return err
	}
	kept := &keeper{}
	p := sdktrace.NewTracerProvider(sdktrace.WithResource(is), sdktrace.WithIDGenerator(&ids{}), sdktrace.WithSpanProcessor(kept))
	if err := tell(p, f); err != nil {
		return err
	}
	const most = 512 // spans of one message, as the specification's batches
	for list := range slices.Chunk(kept.spans, most) {
		if err := out.ExportSpans(ctx, list); err != nil {
			return fmt.Errorf("spans: %w", err)
		}
	}
	return out.Shutdown(ctx)
}

// keeper keeps spans that have ended.
type keeper struct{ spans []sdktrace.ReadOnlySpan }

// OnStart is part of a SpanProcessor.
func (k *keeper) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// OnEnd is part of a SpanProcessor.
func (k *keeper) OnEnd(s sdktrace.ReadOnlySpan) { k.spans = append(k.spans, s) }

// Shutdown is part of a SpanProcessor.
func (k *keeper) Shutdown(context.Context) error { return nil }

// ForceFlush is part of a SpanProcessor.
func (k *keeper) ForceFlush(context.Context) error { return nil }

// tell makes the spans of a run with a provider's tracer.
func tell(p *sdktrace.TracerProvider, f *runmetrics.Finished) error {
	run, err := job.ParseTrace(f.Trace, f.State)
	if err != nil {
		return err
	}
	t := &tale{Tracer: p.Tracer("mpiup", trace.WithInstrumentationVersion(f.Report.Mpiup)), f: f, run: run}
	ctx := context.Background()
	if parent, err := job.ParseTrace(f.Parent, f.State); err == nil {
		state, _ := trace.ParseTraceState(f.State) // one that is none is handed on to nobody
		ctx = trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{TraceID: parent.ID, SpanID: parent.Span,
			TraceFlags: trace.TraceFlags(parent.Flags), TraceState: state, Remote: true}))
	}
	r := f.Report
	ctx, span := t.Start(context.WithValue(ctx, wanted{}, run), "mpiup run", trace.WithTimestamp(r.Begun), trace.WithAttributes(
		attribute.String("mpiup.job.id", r.Job), attribute.StringSlice("process.command_args", r.Command),
		attribute.Int("mpiup.ranks", len(r.Ranks)), attribute.Int("mpiup.hosts", len(r.Hosts)), attribute.Int("mpiup.restarts", f.Restarts),
		attribute.Int("process.exit.code", r.ExitCode)))
	if v := r.Verdict; v != nil {
		span.SetAttributes(attribute.String("error.type", string(v.Kind)))
		if v.Host != "" {
			span.SetAttributes(attribute.String("mpiup.verdict.host", v.Host))
		}
		if v.Rank != nil {
			span.SetAttributes(attribute.Int("mpiup.verdict.rank", *v.Rank))
		}
		span.SetStatus(codes.Error, said(v))
	}
	from := r.Begun
	for number, again := range r.Restarts {
		to := later(t.gathered(t.at(again.At)), from)
		t.attempt(ctx, number, from, to)
		from = to
	}
	t.attempt(ctx, len(r.Restarts), from, r.Ended)
	span.End(trace.WithTimestamp(r.Ended))
	return nil
}

func (t *tale) at(second float64) time.Time { return at(t.f.Report, second) }

func at(r *report.Report, second float64) time.Time {
	return r.Begun.Add(time.Duration(second * float64(time.Second)))
}

// stay is how long the run was in a phase.
type stay struct {
	phase    string
	from, to time.Time
}

func stays(r *report.Report) (list []stay) {
	for i, p := range r.Phases {
		list = append(list, stay{p.Phase, at(r, p.At), r.Ended})
		if i > 0 {
			list[i-1].to = list[i].from
		}
	}
	return list
}

// gathered is when the search for hosts began that led to a restart, which is noted once they are there.
func (t *tale) gathered(restart time.Time) time.Time {
	at := restart
	for _, s := range stays(t.f.Report) {
		if s.phase == "gathering" && !s.from.After(restart) {
			at = s.from
		}
	}
	return at
}

// within is whether a moment lies in a time: its end belongs to what comes next.
func within(at, from, to time.Time) bool { return !at.Before(from) && at.Before(to) }

// attempt tells one start of the ranks, with its search for hosts.
func (t *tale) attempt(ctx context.Context, number int, from, to time.Time) {
	ctx, span := t.Start(context.WithValue(ctx, wanted{}, t.run.Attempt(number)), "attempt", trace.WithTimestamp(from),
		trace.WithAttributes(attribute.Int("mpiup.attempt", number)))
	defer span.End(trace.WithTimestamp(to))
	if number < len(t.f.Report.Restarts) {
		again := t.f.Report.Restarts[number]
		if again.Kind != "" {
			span.SetAttributes(attribute.String("error.type", string(again.Kind)))
			span.SetStatus(codes.Error, again.Why)
		}
	} else if v := t.f.Report.Verdict; v != nil {
		span.SetAttributes(attribute.String("error.type", string(v.Kind)))
		span.SetStatus(codes.Error, said(v))
	}
	ctx = context.WithValue(ctx, wanted{}, nil)
	times := t.hosts(from, to)
	for _, s := range stays(t.f.Report) {
		name := words[s.phase]
		if name == "" || !within(s.from, from, to) && !within(s.to, from, to) && !(s.from.Before(from) && s.to.After(to)) {
			continue
		}
		begin, over := later(s.from, from), earlier(s.to, to)
		if !over.After(begin) && name != "place" {
			continue
		}
		under, phase := t.Start(ctx, name, trace.WithTimestamp(begin))
		for _, host := range slices.Sorted(maps.Keys(times)) {
			t.host(under, number, name, host, times[host], begin, over)
		}
		phase.End(trace.WithTimestamp(over))
	}
	for _, host := range slices.Sorted(maps.Keys(times)) { // where a rank failed before all ran, nothing is told of a run: they are the attempt's
		t.ranks(ctx, number, times[host])
	}
}

// hostTimes are what is known of a host in one attempt. Zero times are unknown.
type hostTimes struct {
	launched, ended time.Time // its last rank was started; its last rank had ended
	ranks           []rankTimes
	told            int // of the ranks
}

type rankTimes struct {
	row         report.Row
	begun, over time.Time
}

// hosts reads the rows of ranks: a rank is of the attempt in which it was started.
func (t *tale) hosts(from, to time.Time) map[string]*hostTimes {
	all := map[string]*hostTimes{}
	for _, w := range t.f.Report.Rows {
		one := rankTimes{row: w}
		for i, second := range w.At {
			at := t.at(second)
			switch {
			case w.Did[i] == report.Starts && within(at, from, later(to, from)):
				one.begun, one.over = at, time.Time{}
			case w.Did[i] == report.Over && !one.begun.IsZero() && one.over.IsZero():
				one.over = earlier(at, to)
			}
		}
		if one.begun.IsZero() {
			continue
		}
		one.over = cmp.Or(one.over, to)
		h := all[w.Host]
		if h == nil {
			h = &hostTimes{}
			all[w.Host] = h
		}
		h.launched, h.ended = later(h.launched, one.begun), later(h.ended, one.over)
		h.ranks = append(h.ranks, one)
	}
	return all
}

// host tells a phase on one host, where its times there are known.
func (t *tale) host(ctx context.Context, attempt int, phase, name string, is *hostTimes, begin, over time.Time) {
	at := slices.IndexFunc(t.f.Report.Hosts, func(h report.Host) bool { return h.Name == name })
	switch phase {
	case "gather":
		if at < 0 || t.f.Report.Hosts[at].Answered.After(over) {
			return // it took another's place later: when that one answered is not known
		}
		over = t.f.Report.Hosts[at].Answered
	case "launch":
		over = earlier(is.launched, over)
	case "run", "stop":
		over = earlier(is.ended, over)
	default: // placing is the launcher's, and of wiring only the end of all is known
		return
	}
	if !over.After(begin) {
		return
	}
	attributes := []attribute.KeyValue{attribute.String("mpiup.host", name), attribute.Int("mpiup.ranks", len(is.ranks))}
	if at >= 0 && t.f.Report.Hosts[at].Node != "" {
		attributes = append(attributes, attribute.String("k8s.node.name", t.f.Report.Hosts[at].Node))
	}
	if t.f.Space != "" {
		pod, _, _ := strings.Cut(name, ".")
		attributes = append(attributes, attribute.String("k8s.pod.name", pod), attribute.String("k8s.namespace.name", t.f.Space))
	}
	ctx, span := t.Start(ctx, phase, trace.WithTimestamp(begin), trace.WithAttributes(attributes...))
	defer span.End(trace.WithTimestamp(over))
	if phase != "run" {
		return
	}
	t.ranks(ctx, attempt, is)
}

// ranks tells the processes of a host, once.
func (t *tale) ranks(ctx context.Context, attempt int, is *hostTimes) {
	for _, one := range is.ranks[is.told:] {
		t.rank(ctx, attempt, one)
	}
	is.told = len(is.ranks)
}

// rank tells a process, whose own TRACEPARENT names this span.
func (t *tale) rank(ctx context.Context, attempt int, one rankTimes) {
	w := one.row
	ctx = context.WithValue(ctx, wanted{}, t.run.Attempt(attempt).Rank(w.Job, w.Rank))
	attributes := []attribute.KeyValue{attribute.Int("mpiup.rank", w.Rank), attribute.Int("mpiup.spawned", w.Job)}
	_, span := t.Start(ctx, "rank", trace.WithTimestamp(one.begun), trace.WithAttributes(attributes...))
	defer span.End(trace.WithTimestamp(one.over))
	if attempt < len(t.f.Report.Restarts) {
		return // how it ended is known of the last attempt's alone
	}
	for _, p := range t.f.Report.Ranks {
		if p.Job != w.Job || p.Rank != w.Rank || p.Host != w.Host {
			continue
		}
		span.SetAttributes(attribute.Int("process.pid", p.PID))
		code, signal := 0, 0
		if n, _ := fmt.Sscanf(p.End, "exit code %d", &code); n == 1 {
			span.SetAttributes(attribute.Int("process.exit.code", code))
		} else if n, _ := fmt.Sscanf(p.End, "signal %d", &signal); n == 1 {
			span.SetAttributes(attribute.String("error.type", job.SignalName(signal)))
		}
		if code != 0 || signal != 0 {
			span.SetStatus(codes.Error, p.End)
		}
		return
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// said is what happened, by the verdict on a run.
func said(v *verdict.Verdict) string {
	if len(v.Evidence) == 0 {
		return ""
	}
	return v.Evidence[0]
}
