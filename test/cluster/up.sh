#!/usr/bin/env bash
# Starts a cluster of two nodes with CoreDNS, the MPI Operator, JobSet, Trainer and LeaderWorkerSet. With DNS=kubeadm
# CoreDNS caches no names of the cluster, as kubeadm sets it up; else for 30 s, absent ones too, as Kubernetes' own addon.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/versions.sh"
. "$here/nodes.sh"
[ "$(id -u)" = 0 ] || { echo "a cluster of namespaces needs root" >&2; exit 1; }
[ -n "$(hierarchies)" ] || { echo "this machine has cgroup v2 alone, for which these nodes are not made" >&2; exit 1; }

[ ! -e "$run" ] || "$here/down.sh"
mkdir -p "$run"
said() { echo "$SECONDS s: $*"; }

nodes() {
    local n
    "$here/certificates.sh"
    for n in 1 2; do "$here/node.sh" "$n"; done
    in_node 1 sh -ec 'ip link add nodes0 type bridge; ip link set nodes0 up; ip addr add 10.99.0.11/24 dev nodes0
        ip route add 10.96.0.0/16 dev nodes0; ip route add 10.244.2.0/24 via 10.99.0.12'
    nsenter -t "$(cat "$run/node1.pid")" -n ip link add to2 type veth peer name nodes0 netns "$(cat "$run/node2.pid")"
    in_node 1 ip link set to2 master nodes0 up
    in_node 2 sh -ec 'ip link set nodes0 up; ip addr add 10.99.0.12/24 dev nodes0
        ip route add 10.96.0.0/16 dev nodes0; ip route add 10.244.1.0/24 via 10.99.0.11'
    said two nodes
    "$here/runtime.sh" 1 & local first=$!
    "$here/control.sh" & local control=$!
    "$here/runtime.sh" 2
    wait $first
    wait $control
    said containerd with the images, and the API server
    for n in 1 2; do "$here/kubelet.sh" "$n"; done
    for n in 1 2; do eventually 60 kubectl get node "node$n"; done
    kubectl create clusterrolebinding mpiup-cluster-proxy --clusterrole=system:node-proxier --user=system:kube-proxy >/dev/null
    kubectl wait --for=condition=Ready node --all --timeout=120s >/dev/null
    said nodes ready
}

dns() {
    local cache="cache 30"
    [ "${DNS:-}" != kubeadm ] || cache+=' {\n            disable success cluster.local\n            disable denial cluster.local\n        }'
    # There is no world outside: a name that is not the cluster's does not exist.
    sed -e 's/__DNS__DOMAIN__/cluster.local/; s/__DNS__MEMORY__LIMIT__/170Mi/; s/__DNS__SERVER__/10.96.0.10/' \
        -e 's/cpu: 100m/cpu: 0/' -e "s/coredns:v[0-9.]*/coredns:v$COREDNS/; s|forward . /etc/resolv.conf|forward . 127.0.0.1:5353|; s|^        cache 30\$|        $cache|" \
        -e '/^        loadbalance/{n;s|$|\n    .:5353 {\n        template ANY ANY . {\n            rcode NXDOMAIN\n        }\n    }|}' \
        "$(source_of kubernetes k8s.io/kubernetes)/cluster/addons/dns/coredns/coredns.yaml.base" >"$run/coredns.yaml"
    kubectl apply -f "$run/coredns.yaml" >/dev/null
}

# manifests NAME MODULE FOLDER: a copy in run/NAME of what the module installs itself with
manifests() { cp -r "$(source_of operators "$2")/$3" "$run/$1" && chmod -R u+w "$run/$1"; }
applied() { kubectl apply --server-side "$@" >/dev/null; }
# unasked: each node has the machine's CPUs, which are for jobs to ask for.
unasked() { sed -E 's/cpu: (500m|1)$/cpu: 0/'; }
rolled_out() { kubectl -n "$1" rollout status "deployment/$2" --timeout=180s >/dev/null; }

operators() {
    manifests mpi-operator github.com/kubeflow/mpi-operator manifests
    applied -f "$run/mpi-operator/base/kubeflow.org_mpijobs.yaml"
    # Without it the operator ends. kubectl wait fails on an object that has no conditions yet.
    eventually 60 kubectl wait --for=condition=Established crd/mpijobs.kubeflow.org --timeout=60s
    # Of 0.8.2: without this right, which its own manifests lack, it resumes no MPIJob that was suspended.
    sed -i -E 's|^( *)- jobs$|&\n\1- jobs/status|' "$run/mpi-operator/base/cluster-role.yaml"
    grep -q jobs/status "$run/mpi-operator/base/cluster-role.yaml" || { echo "MPI Operator's cluster-role.yaml has another form: is jobs/status in it?" >&2; exit 1; }
    applied -k "$run/mpi-operator/overlays/standalone"
    # Trainer's overlay takes JobSet from a release on the web; the same is in JobSet's module.
    manifests jobset sigs.k8s.io/jobset config
    printf 'featureGates: {InPlaceRestart: true}\n' >>"$run/jobset/components/manager/controller_manager_config.yaml"
    manifests trainer-controller-manager github.com/kubeflow/trainer/v2 manifests
    local jobset=$run/trainer-controller-manager/third-party/jobset
    kubectl kustomize "$run/jobset/default" | unasked >"$jobset/manifests.yaml"
    sed -i 's|https://.*/manifests.yaml|manifests.yaml|' "$jobset/kustomization.yaml"
    applied -k "$run/trainer-controller-manager/overlays/manager"
    manifests lws sigs.k8s.io/lws config
    (cd "$run/lws" && kubectl kustomize default) | sed "s|image: .*lws.*|image: registry.k8s.io/lws/lws:v$LWS|; s|imagePullPolicy: Always|imagePullPolicy: IfNotPresent|" | unasked >"$run/lws.yaml"
    applied -f "$run/lws.yaml"
    rolled_out kube-system coredns
    rolled_out mpi-operator mpi-operator
    rolled_out kubeflow-system jobset-controller-manager
    rolled_out kubeflow-system kubeflow-trainer-controller-manager
    rolled_out lws-system lws-controller-manager
}

nodes
dns
operators
said CoreDNS and the operators
