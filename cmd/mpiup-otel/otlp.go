package main

import (
	"cmp"
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/mpiup/mpiup/launcher/runmetrics"
)

// protocol is how a signal travels: grpc, or http/protobuf, which is the specification's own choice.
func protocol(getenv func(string) string, signal string) (string, error) {
	p := cmp.Or(getenv("OTEL_EXPORTER_OTLP_"+signal+"_PROTOCOL"), getenv("OTEL_EXPORTER_OTLP_PROTOCOL"), "http/protobuf")
	if p != "grpc" && p != "http/protobuf" {
		return "", fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %.40q; use grpc or http/protobuf", p)
	}
	return p, nil
}

// spanExporter reads addresses, headers, certificates and so on from OTEL_EXPORTER_OTLP_* itself. Nothing is tried again: there is no time.
func spanExporter(ctx context.Context, getenv func(string) string) (sdktrace.SpanExporter, error) {
	p, err := protocol(getenv, "TRACES")
	switch {
	case err != nil:
		return nil, err
	case p == "grpc":
		return otlptracegrpc.New(ctx, otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{}))
	}
	return otlptracehttp.New(ctx, otlptracehttp.WithRetry(otlptracehttp.RetryConfig{}))
}

func metricExporter(ctx context.Context, getenv func(string) string) (sdkmetric.Exporter, error) {
	p, err := protocol(getenv, "METRICS")
	switch {
	case err != nil:
		return nil, err
	case p == "grpc":
		return otlpmetricgrpc.New(ctx, otlpmetricgrpc.WithRetry(otlpmetricgrpc.RetryConfig{}))
	}
	return otlpmetrichttp.New(ctx, otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{}))
}

// sendMetrics sends the run's last values.
func sendMetrics(ctx context.Context, getenv func(string) string, is *resource.Resource, f *runmetrics.Finished) error {
	out, err := metricExporter(ctx, getenv)
	if err != nil {
		return err
	}
	values, err := measured(ctx, is, f)
	if err == nil {
		err = out.Export(ctx, values)
	}
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	return out.Shutdown(ctx)
}

// measured are the run's last values.
func measured(ctx context.Context, is *resource.Resource, f *runmetrics.Finished) (*metricdata.ResourceMetrics, error) {
	reader := sdkmetric.NewManualReader()
	m := sdkmetric.NewMeterProvider(sdkmetric.WithResource(is), sdkmetric.WithReader(reader)).Meter("mpiup", metric.WithInstrumentationVersion(f.Report.Mpiup))
	kind := "" // as error.type has it: absent where all went well
	if v := f.Report.Verdict; v != nil {
		kind = string(v.Kind)
	}
	var err error
	gauge := func(name, unit, help string, value float64, more ...attribute.KeyValue) {
		g, bad := m.Float64Gauge(name, metric.WithUnit(unit), metric.WithDescription(help))
		if bad != nil {
			err = bad
			return
		}
		if kind != "" {
			more = append(more, attribute.String("error.type", kind))
		}
		g.Record(ctx, value, metric.WithAttributes(append(more, attribute.String("mpiup.job.id", f.Report.Job))...))
	}
	gauge("mpiup.run.duration", "s", "How long the run took.", f.Report.Ended.Sub(f.Report.Begun).Seconds())
	spent := map[string]float64{}
	for _, s := range stays(f.Report) {
		if name := words[s.phase]; name != "" {
			spent[name] += max(s.to.Sub(s.from).Seconds(), 0)
		}
	}
	for name, seconds := range spent {
		gauge("mpiup.run.phase.duration", "s", "How long the run was in a phase.", seconds, attribute.String("mpiup.phase", name))
	}
	gauge("mpiup.run.restarts", "{restart}", "How often the ranks were started again.", float64(f.Restarts))
	gauge("mpiup.run.ranks", "{rank}", "Ranks of the run.", float64(len(f.Report.Ranks)))
	gauge("mpiup.run.hosts", "{host}", "Hosts of the run.", float64(len(f.Report.Hosts)))
	for name, v := range f.Values {
		gauge("mpiup.run.progress", "1", "The last value of a name that --watch read.", v, attribute.String("mpiup.progress.name", name))
	}
	if err != nil {
		return nil, err
	}
	var all metricdata.ResourceMetrics
	return &all, reader.Collect(ctx, &all)
}
