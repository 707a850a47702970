#!/usr/bin/env bash
# Builds the programs of a Kubernetes cluster from the Go module proxy: Kubernetes itself, etcd, CoreDNS, the MPI Operator,
# JobSet, Kubeflow Trainer and LeaderWorkerSet. What is built is kept in $CLUSTER/bin; what changes is built anew.
set -euo pipefail
shopt -s nullglob
. "$(dirname "$0")/versions.sh"
tests=$(cd "$(dirname "$0")/../kube" && pwd)
export CGO_ENABLED=0 GOFLAGS="-mod=mod -buildvcs=false -trimpath"
mkdir -p "$CLUSTER/bin"

# module_dir MODULE@VERSION: where its source lies, fetched if need be
module_dir() { go mod download -json "$1" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p'; }

# build NAME FLAGS PACKAGE...: programs, in the module of the current folder: those linked while others compile. Not again
# where nothing that says what they are is other than when they were built.
build() {
    local name=$1 flags=$2 start=$SECONDS are; shift 2
    are=$(echo "$flags $*" | cat - go.mod ./*.go | sha256sum)
    if [ "$(cat "$CLUSTER/bin/.$name" 2>/dev/null)" = "$are" ]; then return; fi
    nice -n "${NICE:-10}" go build -p "${JOBS:-$(nproc)}" -ldflags "-s -w $flags" -o "$CLUSTER/bin/" "$@"
    echo "$are" >"$CLUSTER/bin/.$name"
    echo "$((SECONDS - start)) s: $*"
}

# published NAME MODULE@VERSION: the folder in which a program of a module is built, with the module's own go.mod, which is
# what its authors built it with.
published() {
    local source
    source=$(module_dir "$2")
    mkdir -p "$CLUSTER/build/$1" && cd "$CLUSTER/build/$1"
    sed "s|^module .*|module cluster/$1|" "$source/go.mod" >go.mod
    cp "$source/go.sum" go.sum
    go mod edit -require="$2"
}

kubernetes() (
    published kubernetes "k8s.io/kubernetes@v$KUBERNETES"
    # It takes Kubernetes' other modules from folders that the published module lacks; they are published as v0.X.Y.
    sed -i -E "s|(=> )\./staging/src/(k8s.io/[a-z-]+)|\1\2 v0.${KUBERNETES#1.}|" go.mod
    local minor flags
    minor=$(cut -d. -f2 <<<"$KUBERNETES")
    flags="-X k8s.io/component-base/version.gitVersion=v$KUBERNETES -X k8s.io/component-base/version.gitMajor=1"
    flags+=" -X k8s.io/component-base/version.gitMinor=$minor -X k8s.io/client-go/pkg/version.gitVersion=v$KUBERNETES"
    "$1" kubernetes "$flags" k8s.io/kubernetes/cmd/{kube-apiserver,kube-controller-manager,kube-scheduler,kubelet,kubectl,kube-proxy} go.etcd.io/etcd/server/v3
)

# CoreDNS with the plugins that its addon's Corefile names; the others' clients of clouds are most of what it is made of.
coredns() (
    published coredns "github.com/coredns/coredns@v$COREDNS"
    {
        printf 'package main\n\nimport (\n\t"github.com/coredns/coredns/coremain"\n'
        printf '\t_ "github.com/coredns/coredns/plugin/%s"\n' cache errors forward health kubernetes loadbalance loop metrics ready reload template
        printf ')\n\nfunc main() { coremain.Run() }\n'
    } >main.go
    "$1" coredns "" .
)

# The operators by the one go.mod of test/kube, which has their code in its tests: what all of them use is built once.
operators() (
    mkdir -p "$CLUSTER/build/operators" && cd "$CLUSTER/build/operators"
    cp "$tests/go.mod" "$tests/go.sum" .
    go mod edit -module=cluster/operators -dropreplace=github.com/mpiup/mpiup -droprequire=github.com/mpiup/mpiup
    "$1" operators "" github.com/kubeflow/mpi-operator/cmd/mpi-operator sigs.k8s.io/jobset sigs.k8s.io/jobset/cmd/in-place-restart-agent \
        github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager sigs.k8s.io/lws/cmd
)

# fetched NAME FLAGS PACKAGE...: what they are built from. It comes while others are built; a failure of it is told there.
fetched() { shift 2; go list -deps "$@" >/dev/null; }
{ coredns fetched; operators fetched; } >"$CLUSTER/fetch.log" 2>&1 & fetching=$!

kubernetes build
wait $fetching || true
coredns build
operators build
