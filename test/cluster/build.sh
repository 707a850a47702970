#!/usr/bin/env bash
# Builds the programs of a Kubernetes cluster from the Go module proxy: Kubernetes itself, etcd, CoreDNS, the MPI
# Operator, JobSet and Kubeflow Trainer. What is built once is kept in $CLUSTER/bin; a version that changes is built anew.
set -euo pipefail
. "$(dirname "$0")/versions.sh"
export CGO_ENABLED=0 GOFLAGS="-mod=mod -buildvcs=false -trimpath"
mkdir -p "$CLUSTER/bin"

# module_dir MODULE@VERSION: where its source lies, fetched if need be
module_dir() { go mod download -json "$1" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p'; }

# built VERSION PROGRAM...: they are there, and of that version
built() {
    local version=$1 program; shift
    for program; do [ "$(cat "$CLUSTER/bin/.$program" 2>/dev/null)" = "$version" ] || return 1; done
}

# build VERSION LDFLAGS PACKAGE...: in the current folder's module
build() {
    local version=$1 flags=$2 package start=$SECONDS; shift 2
    nice -n "${NICE:-10}" go build -p "${JOBS:-$(nproc)}" -ldflags "-s -w $flags" -o "$CLUSTER/bin/" "$@"
    for package; do echo "$version" >"$CLUSTER/bin/.${package##*/}"; done
    echo "$((SECONDS - start)) s: $* $version"
}

# of MODULE VERSION PACKAGE PROGRAM: a program of a module that is built as it is published
of() {
    local module=$1 version=$2 package=$3 program=$4
    if built "$version" "$program"; then return; fi
    local work=$CLUSTER/build/$program
    mkdir -p "$work" && cd "$work"
    # The module's own go.mod, with its replacements, is what its authors built it with.
    sed "s|^module .*|module cluster/$program|" "$(module_dir "$module@$version")/go.mod" >go.mod
    cp "$(module_dir "$module@$version")/go.sum" go.sum
    go mod edit -require="$module@$version"
    build "$version" "" "$package"
    [ "${package##*/}" = "$program" ] || {
        mv "$CLUSTER/bin/${package##*/}" "$CLUSTER/bin/$program"
        mv "$CLUSTER/bin/.${package##*/}" "$CLUSTER/bin/.$program"
    }
}

kubernetes() {
    if built "$KUBERNETES" "${kubernetes_programs[@]}" etcd; then return; fi
    mkdir -p "$CLUSTER/build/kubernetes" && cd "$CLUSTER/build/kubernetes"
    local source minor flags
    source=$(module_dir "k8s.io/kubernetes@v$KUBERNETES")
    # Its go.mod takes Kubernetes' other modules from folders that the published module lacks; they are published as v0.X.Y.
    sed -E "s|^module .*|module cluster/kubernetes|; s|(=> )\./staging/src/(k8s.io/[a-z-]+)|\1\2 v0.${KUBERNETES#1.}|" "$source/go.mod" >go.mod
    cp "$source/go.sum" go.sum
    go mod edit -require="k8s.io/kubernetes@v$KUBERNETES"
    minor=$(cut -d. -f2 <<<"$KUBERNETES")
    flags="-X k8s.io/component-base/version.gitVersion=v$KUBERNETES -X k8s.io/component-base/version.gitMajor=1"
    flags+=" -X k8s.io/component-base/version.gitMinor=$minor -X k8s.io/client-go/pkg/version.gitVersion=v$KUBERNETES"
    local program
    for program in "${kubernetes_programs[@]}"; do
        built "$KUBERNETES" "$program" || build "$KUBERNETES" "$flags" "k8s.io/kubernetes/cmd/$program"
    done
    if ! built "$KUBERNETES" etcd; then
        nice -n "${NICE:-10}" go build -p "${JOBS:-$(nproc)}" -ldflags "-s -w" -o "$CLUSTER/bin/etcd" go.etcd.io/etcd/server/v3
        echo "$KUBERNETES" >"$CLUSTER/bin/.etcd"
    fi
}

kubernetes
of github.com/coredns/coredns "v$COREDNS" github.com/coredns/coredns coredns
of github.com/kubeflow/mpi-operator "v$MPI_OPERATOR" github.com/kubeflow/mpi-operator/cmd/mpi-operator mpi-operator
of sigs.k8s.io/jobset "v$JOBSET" sigs.k8s.io/jobset jobset
of sigs.k8s.io/jobset "v$JOBSET" sigs.k8s.io/jobset/cmd/in-place-restart-agent in-place-restart-agent
of github.com/kubeflow/trainer/v2 "v$TRAINER" github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager trainer-controller-manager
of sigs.k8s.io/lws "v$LWS" sigs.k8s.io/lws/cmd lws
