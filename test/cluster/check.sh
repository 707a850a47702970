#!/usr/bin/env bash
# check.sh [RUN]: this package's tests, and the pods of test/kube/kubelet, on what make cluster started. PARALLEL tests at
# a time, 6 where nothing is said and 1 to measure. What they print stays in run/check.log; the last lines name those that
# failed, and count.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/versions.sh"
. "$here/nodes.sh"
tests=${1:-} parallel=${PARALLEL:-6} log=$run/check.log start=$SECONDS
if ! kubectl get --raw /readyz >/dev/null 2>&1; then echo "no cluster answers on this machine: start one with make cluster" >&2; exit 1; fi
[ "$(sha256sum <"$here/../../bin/mpiup")" = "$(cat "$CLUSTER/images.mpiup")" ] ||
    echo "the cluster has the mpiup of the last make cluster, and bin/mpiup is another: make cluster brings it there"

# What a run that was killed has left.
kubectl delete namespace -l example.com/checked --wait=false >/dev/null

programs=$run/tests # those of the last run are not linked again where nothing has changed
mkdir -p "$programs"
export MPIUP_CLUSTER=1 GOFLAGS=-trimpath CGO_ENABLED=0 # as build.sh, with which test/kube shares what is built
(cd "$here" && go test -c -o "$programs/cluster" .)
(cd "$here/../kube" && go test -c -o "$programs/kubelet" ./kubelet)
# What comes before a slash names a test, the rest its parts. An empty list is none: it would run all tests.
list=${tests%%/*}
named=$("$programs/cluster" -test.list "${list:-.}"; "$programs/kubelet" -test.list "${list:-.}")
[ -n "$named" ] || { echo "no test is called $tests" >&2; exit 1; }

code=0
{
    (cd "$here" && "$programs/cluster" -test.v -test.run "$tests" -test.parallel "$parallel" -test.timeout 40m) || code=1
    (cd "$here/../kube/kubelet" && "$programs/kubelet" -test.v -test.run "$tests" -test.parallel $((parallel + 2)) -test.timeout 20m) || code=1
    exit $code
} 2>&1 | tee "$log" || code=1
count() { grep -cE "^ *--- $1: " "$log" || true; }
grep -E '^ *--- FAIL: ' "$log" || true
[ "$(count PASS)" -gt 0 ] || { echo "nothing was tested" >&2; code=1; }
echo "$(count PASS) passed, $(count FAIL) failed, $(count SKIP) skipped in $((SECONDS - start)) s; load averages $(cut -d' ' -f1-3 /proc/loadavg)"
exit $code
