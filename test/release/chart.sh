#!/usr/bin/env bash
# The Helm chart and the kustomize base of examples/: lints them and compares what they make, which is the same. With a
# version it writes both into a directory, as a release has them.
#
#   test/release/chart.sh [VERSION DIRECTORY]
#   test/release/chart.sh tools    only brings helm and kustomize
#
# What helm makes is in examples/kustomize (plain) and in test/kube/contract/testdata/chart (hardened), where tests hold it
# against the operators' schemas. UPDATE=1 writes both anew. Helm and kustomize come from the Go module proxy: minutes the first time.
set -euo pipefail
cd "$(dirname "$0")/../.."
chart=examples/helm/mpiup
made=test/kube/contract/testdata/chart
jobs='mpiJobs={"pi":{"workers":2,"command":["mpiup","run","-n","4","/opt/pi"]}}'
note='# The same as the chart of ../../helm makes with its defaults (test/release/chart.sh compares them).'
bin=$PWD/.cache/release
mkdir -p "$bin" "$made"
for tool in helm.sh/helm/v3/cmd/helm@v3.22.0 sigs.k8s.io/kustomize/kustomize/v5@v5.7.1; do
    name=${tool%@*} name=${name%/v5} name=${name##*/}
    [ "$(cat "$bin/$name.version" 2>/dev/null)" = "$tool" ] && continue
    echo "building $tool"
    CGO_ENABLED=0 GOBIN=$bin GOFLAGS=-trimpath go install "$tool"
    echo "$tool" >"$bin/$name.version"
done
[ "${1-}" != tools ] || exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for values in hardened=false hardened=true; do
    "$bin/helm" lint --strict --quiet "$chart" --set "$values" --set-json "$jobs"
done
for values in "$chart"/ci/*-values.yaml; do
    "$bin/helm" lint --strict --quiet "$chart" --values "$values"
done
for bad in hardened=perhaps slots=0 mpiJobs.x.workers=2 nothing=1 user=1000 shm=much networkPolicy.mpiPorts=all launcher.image=x worker.resources.gpus=8 backoffLimit=often; do # what values.schema.json is for
    if "$bin/helm" template x "$chart" --set "$bad" >/dev/null 2>&1; then echo "the chart takes $bad" >&2; exit 1; fi
done
render() { "$bin/helm" template x "$chart" "$@" | grep -v '^---$\|^# Source: '; }
mkdir "$work/made"
{ echo "$note"; render; } >"$work/made/runtime.yaml"
{ echo "$note"; render --set runtime= --set-json "$jobs"; } >"$work/made/mpijob.yaml"
render --set hardened=true >"$work/made/hardened-runtime.yaml"
render --set hardened=true --set runtime= --set-json "$jobs" >"$work/made/hardened-mpijob.yaml"
for values in "$chart"/ci/*-values.yaml; do # what test/kube/contract holds against schemas, validation and both admissions
    name=$(basename "$values" -values.yaml)
    "$bin/helm" template x "$chart" --values "$values" >"$work/made/$name.yaml"
    [ -z "${UPDATE-}" ] || cp "$work/made/$name.yaml" "$made/"
    diff -u "$made/$name.yaml" "$work/made/$name.yaml"
done
for f in runtime mpijob; do
    if [ -n "${UPDATE-}" ]; then
        cp "$work/made/$f.yaml" "examples/kustomize/$f/$f.yaml"
        cp "$work/made/hardened-$f.yaml" "$made/"
    fi
    diff -u "examples/kustomize/$f/$f.yaml" "$work/made/$f.yaml"
    diff -u "$made/hardened-$f.yaml" "$work/made/hardened-$f.yaml"
    # kustomize with and without the component makes the objects that helm makes; only the order of fields differs.
    for way in plain hardened; do
        mkdir -p "$work/$way-$f" "$work/again-$way-$f"
        cp -r examples/kustomize "$work/$way-$f/base"
        from=$work/made/$f.yaml
        printf 'resources: [base/%s]\n' "$f" >"$work/$way-$f/kustomization.yaml"
        if [ $way = hardened ]; then
            from=$work/made/hardened-$f.yaml
            echo 'components: [base/hardened]' >>"$work/$way-$f/kustomization.yaml"
        fi
        cp "$from" "$work/again-$way-$f/it.yaml"
        echo 'resources: [it.yaml]' >"$work/again-$way-$f/kustomization.yaml"
        diff -u <("$bin/kustomize" build "$work/again-$way-$f") <("$bin/kustomize" build "$work/$way-$f")
    done
done
# An overlay's image reaches every container.
printf 'resources: [base/runtime, base/mpijob]\nimages:\n- {name: registry.example.com/mpiup-openmpi, newName: example.org/mine, newTag: v7}\n' >"$work/plain-runtime/kustomization.yaml"
[ "$("$bin/kustomize" build "$work/plain-runtime" | grep -c 'image: example.org/mine:v7')" = 4 ] || { echo "an overlay's image does not reach all four containers" >&2; exit 1; }
echo "chart and kustomize make the same, plain and hardened: ok"

[ $# -eq 2 ] || exit 0
cp -r "$chart" "$2/mpiup"
cp LICENSE THIRD_PARTY_NOTICES "$2/mpiup/"
cp -r examples/kustomize "$2/mpiup-kustomize"
sed -i "s/^version: .*/version: ${1#v}/; s/^appVersion: .*/appVersion: $1/" "$2/mpiup/Chart.yaml"
grep -rl ':v0\.0\.0' "$2/mpiup" "$2/mpiup-kustomize" | xargs sed -i "s/:v0\.0\.0/:$1/"
