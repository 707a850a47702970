# shellcheck shell=bash disable=SC2034 # sourced
# Versions of what make cluster builds, and where it is kept. Sourced by the scripts beside it.
KUBERNETES=${KUBERNETES:-1.35.4}
COREDNS=${COREDNS:-1.14.7}
# The operators are those of test/kube's tests.
of_tests() { sed -n "s|^\t$1 v\([^ ]*\).*|\1|p" "$(dirname "${BASH_SOURCE[0]}")/../kube/go.mod"; }
MPI_OPERATOR=$(of_tests github.com/kubeflow/mpi-operator)
JOBSET=$(of_tests sigs.k8s.io/jobset)
LWS=$(of_tests sigs.k8s.io/lws)
TRAINER=$(of_tests github.com/kubeflow/trainer/v2)
CLUSTER=${CLUSTER:-${XDG_CACHE_HOME:-$HOME/.cache}/mpiup/cluster} # 5 GB

# source_of FOLDER MODULE: where the source lies that programs of build.sh were built from. It has the manifests.
source_of() { (cd "$CLUSTER/build/$1" && GOFLAGS=-mod=mod go list -m -f '{{.Dir}}' "$2"); }
