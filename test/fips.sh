#!/usr/bin/env bash
# make fips: builds bin/mpiup-fips with Go's certified FIPS 140-3 module, then runs the tests with that module under
# GODEBUG=fips140=only, which refuses or panics at what is not approved.
#
#   test/fips.sh [build|unit|hosts|pods]...    all without an argument; hosts and pods need root; RUN=REGEXP for some of their tests
#
# hosts is all of ./test, pods the module test/kube without the operators' own controllers, whose cryptography is not ours. A test
# that lacks what CI has fails.
#
# Tests give programs environments of their own, so the binary that they start has fips140=only as its default. Go takes
# that from a source file, which only this build has. bin/mpiup-fips has Go's default, fips140=on.
set -euo pipefail
cd "$(dirname "$0")/.."
export GOFIPS140=certified GOFLAGS="${GOFLAGS:-} -trimpath"
version=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo unknown)}
export MPIUP_TEST_REQUIRE=${MPIUP_TEST_REQUIRE:-$(sed -n 's/^export .* MPIUP_TEST_REQUIRE=//p' .ci/run)}
only=(-exec 'env GODEBUG=fips140=only')

build() { # build OUT [FLAG...]
    CGO_ENABLED=0 go build -tags grpcnotrace -buildvcs=false -ldflags "-s -w -X main.version=$version" "${@:2}" -o "$1" ./cmd/mpiup
}

steps=("$@")
[ $# -gt 0 ] || steps=(build unit hosts pods)
work=$(mktemp -d)
chmod 755 "$work" # tests start the binary as other users too
trap 'rm -rf "$work"' EXIT
only_binary() { # the mpiup that tests start
    [ ! -e "$work/mpiup" ] || return 0
    printf '//go:debug fips140=only\npackage main\n' >"$work/only.go"
    printf '{"Replace": {"%s": "%s"}}' "$PWD/cmd/mpiup/fips_only.go" "$work/only.go" >"$work/overlay.json"
    build "$work/mpiup" -overlay "$work/overlay.json"
    says=$("$work/mpiup" version)
    [[ $says == *"FIPS 140-3 only, module v"* ]] || { echo "the binary under test says $says" >&2; exit 1; }
    export MPIUP_BIN=$work/mpiup
}
for step in "${steps[@]}"; do
    case $step in
        build)
            build bin/mpiup-fips
            says=$(bin/mpiup-fips version)
            [[ $says == *"FIPS 140-3, module v"* ]] || { echo "bin/mpiup-fips says $says" >&2; exit 1; }
            echo "built bin/mpiup-fips: $says"
            ;;
        unit)
            echo "== unit tests under fips140=only"
            go list ./... | grep -v /test/ | xargs go test -timeout 10m "${only[@]}"
            ;;
        hosts)
            only_binary
            echo "== tests on hosts: $says"
            go test -count=1 -p 1 -timeout 60m "${only[@]}" ${RUN:+-run "$RUN"} ./test/...
            ;;
        pods)
            only_binary
            echo "== tests on pods: $says"
            (cd test/kube && go test -count=1 -timeout 30m "${only[@]}" ${RUN:+-run "$RUN"} .)
            ;;
        *) sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
done
