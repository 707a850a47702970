#!/usr/bin/env bash
# A run's spans and metrics, taken by OpenTelemetry's own collector, over HTTP and over gRPC: make otel-check. Its build takes minutes the
# first time.
set -euo pipefail
cd "$(dirname "$0")"
bin=$PWD/../../bin
work=$(mktemp -d)
trap 'kill "${collector:-}" 2>/dev/null || true; wait || true; rm -rf "$work"' EXIT
go build -trimpath -o "$bin/collector" .
config="
receivers: {otlp: {protocols: {http: {endpoint: 127.0.0.1:4318}, grpc: {endpoint: 127.0.0.1:4317}}}}
exporters: {debug: {verbosity: detailed, use_internal_logger: false}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {traces: {receivers: [otlp], exporters: [debug]}, metrics: {receivers: [otlp], exporters: [debug]}}"
"$bin/collector" --config "yaml:$config" >"$work/took" 2>"$work/log" &
collector=$!
until grep -q "Everything is ready" "$work/log"; do kill -0 $collector || { cat "$work/log"; exit 1; }; done
parent=0af7651916cd43dd8448eb211c80319c
for way in http/protobuf:4318 grpc:4317; do
    TRACEPARENT=00-$parent-b7ad6b7169203331-01 OTEL_EXPORTER_OTLP_PROTOCOL=${way%:*} OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:${way#*:} \
        "$bin/mpiup" run -n 2 --local sh -c 'exit $MPIUP_RANK' 2>"$work/said" || true
    if grep OTLP "$work/said"; then exit 1; fi
done
kill $collector
wait $collector || true
for want in "4 Name *: rank" "2 Name *: mpiup run" "2 Name *: attempt" "2 Parent ID *: b7ad6b7169203331" "2 error.type: Str(exit-code)" "2 -> Name: mpiup.run.duration"; do
    n=$(grep -c -- "${want#* }" "$work/took" || true)
    if [ "$n" -lt "${want%% *}" ]; then
        cat "$work/took"
        echo "the collector has ${want#* } $n times, and ${want%% *} are wanted" >&2
        exit 1
    fi
done
grep -E 'Name  *: |-> Name: ' "$work/took" | sort | uniq -c
echo "the collector took both"
