#!/usr/bin/env bash
# Starts etcd (server, as its package is called), the API server, the controllers and the scheduler in node 1.
set -euo pipefail
. "$(dirname "$0")/versions.sh"
. "$(dirname "$0")/nodes.sh"
pki=$run/pki
daemon 1 etcd server --data-dir "$run/etcd" --unsafe-no-fsync --listen-peer-urls http://127.0.0.1:2380 \
    --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379
daemon 1 apiserver kube-apiserver --etcd-servers=http://127.0.0.1:2379 --advertise-address=10.99.0.11 --secure-port=6443 \
    --tls-cert-file="$pki/apiserver.crt" --tls-private-key-file="$pki/apiserver.key" --client-ca-file="$pki/ca.crt" \
    --kubelet-client-certificate="$pki/admin.crt" --kubelet-client-key="$pki/admin.key" \
    --kubelet-certificate-authority="$pki/ca.crt" --kubelet-preferred-address-types=InternalIP \
    --service-account-key-file="$pki/accounts.pub" --service-account-signing-key-file="$pki/accounts.key" \
    --service-account-issuer=https://kubernetes.default.svc.cluster.local --service-cluster-ip-range=10.96.0.0/16 \
    --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --allow-privileged=true --profiling=false
if ! eventually 120 kubectl get --raw /readyz; then tail -3 "$run/node1/log/apiserver.log" >&2; exit 1; fi
as() { echo "--kubeconfig=$run/$1.kubeconfig --authentication-kubeconfig=$run/$1.kubeconfig --authorization-kubeconfig=$run/$1.kubeconfig --leader-elect=false"; }
# shellcheck disable=SC2046 # several words
daemon 1 controllers kube-controller-manager $(as controllers) --service-account-private-key-file="$pki/accounts.key" \
    --root-ca-file="$pki/ca.crt" --cluster-signing-cert-file="$pki/ca.crt" --cluster-signing-key-file="$pki/ca.key" \
    --use-service-account-credentials=true --cluster-cidr=10.244.0.0/16 --allocate-node-cidrs=false
# shellcheck disable=SC2046
daemon 1 scheduler kube-scheduler $(as scheduler)
