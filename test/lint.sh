#!/usr/bin/env bash
# make lint: vet, staticcheck, gosec, gofmt, generated code unchanged, directions of imports.
# Prints what is wrong and where; silence is good.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
bad=0
fail() { echo "$1"; bad=1; }

files=$(git ls-files -coz --exclude-standard '*.go' | while IFS= read -rd '' f; do
    [ ! -e "$f" ] || printf '%s\0' "$f" # not one just removed
done | xargs -0 gofmt -l)
[ -z "$files" ] || fail "not gofmt-ed: $files"

# test/kube is a module of its own and takes its tools from this one.
mkdir -p .cache
go build -o .cache/staticcheck honnef.co/go/tools/cmd/staticcheck || exit
staticcheck=$PWD/.cache/staticcheck
for dir in . test/kube; do
    (cd "$dir" && go vet ./...) || fail "go vet found the above in module $dir"
    (cd "$dir" && "$staticcheck" ./...) || fail "staticcheck found the above in module $dir"
done

# gosec, of the product's packages, by a program of ours that has the reasons for what stays (test/lint/exceptions.txt).
# staticcheck, above, runs all its checks of faults, those of misused cryptography and unsafe conversions among them.
go build -o .cache/lint ./test/lint || exit
go list -f '{{.Dir}}' ./... | grep -v /test/ | xargs .cache/lint test/lint/exceptions.txt ||
    fail "gosec found the above: mend it, or write it into test/lint/exceptions.txt with the reason"

generated() {
    local dir=internal/api/v1 made have tmp
    made=$(sed -n 's/^\/\/ *[\t ]*protoc  *v//p' $dir/mpiup.pb.go | head -1)
    have=$(protoc --version 2>/dev/null | sed 's/^libprotoc //')
    # 3.21.12 calls itself v3.21.12 in what it writes.
    if [ "$have" != "$made" ]; then
        echo "generated code not compared: it was made with protoc $made, here is ${have:-none}"
        return 0
    fi
    tmp=$(mktemp -d .cache/gen.XXXXXX)
    mkdir "$tmp/v1" "$tmp/rpc"
    cp $dir/gen.sh $dir/mpiup.proto "$tmp/v1"
    cp internal/api/rpc/agent.proto "$tmp/rpc"
    local rc=0 file
    sh "$tmp/v1/gen.sh" || rc=1
    for file in v1/mpiup.pb.go v1/mpiup_frame.pb.go rpc/agent.pb.go rpc/agent_grpc.pb.go; do
        diff -u "internal/api/$file" "$tmp/$file" || rc=1
    done
    rm -rf "$tmp"
    return $rc
}
generated || fail "generated code differs from mpiup.proto: run make generate and commit"

if [ -d internal/archtest ]; then
    go test ./internal/archtest || fail "imports go the wrong way, see above"
fi
[ $bad = 0 ] || exit 1
