# shellcheck shell=bash disable=SC2034 # sourced
# Versions of what make cluster builds, and where it is kept. Sourced by the scripts beside it.
KUBERNETES=${KUBERNETES:-1.35.4}
COREDNS=${COREDNS:-1.14.7}
MPI_OPERATOR=${MPI_OPERATOR:-0.8.2}
JOBSET=${JOBSET:-0.12.0} # the one that Trainer's manifests ask for
LWS=${LWS:-0.9.0}
TRAINER=${TRAINER:-2.3.0}
CLUSTER=${CLUSTER:-${XDG_CACHE_HOME:-$HOME/.cache}/mpiup/cluster} # 5 GB
kubernetes_programs=(kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl kube-proxy)

# source_of PROGRAM MODULE: where the source lies that a program of build.sh was built from. It has the manifests.
source_of() { (cd "$CLUSTER/build/$1" && GOFLAGS=-mod=mod go list -m -f '{{.Dir}}' "$2"); }
