#!/usr/bin/env bash
# kubelet.sh N: starts the kubelet and kube-proxy in node N.
set -euo pipefail
. "$(dirname "$0")/versions.sh"
. "$(dirname "$0")/nodes.sh"
n=$1 home=$run/node$1
cat >"$home/etc/kubelet.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
failSwapOn: false
oomScoreAdj: 0 # without CAP_SYS_RESOURCE it cannot be lowered
volumePluginDir: /var/lib/kubelet/plugins # /usr is read-only
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $run/pki/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $run/pki/node$n.crt
tlsPrivateKeyFile: $run/pki/node$n.key
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
resolvConf: $home/etc/resolv.conf
evictionHard: {memory.available: 200Mi, nodefs.available: 1Gi, imagefs.available: 1Gi}
imageGCHighThresholdPercent: 100
YAML
cat >"$home/etc/proxy.yaml" <<YAML
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clientConnection: {kubeconfig: $run/proxy.kubeconfig}
hostnameOverride: node$n
clusterCIDR: 10.244.0.0/16
oomScoreAdj: 0
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s} # they are the whole kernel's
YAML
daemon "$n" kubelet kubelet --config="$home/etc/kubelet.yaml" --kubeconfig="$run/node$n.kubeconfig" \
    --hostname-override="node$n" --node-ip="10.99.0.1$n"
daemon "$n" proxy kube-proxy --config="$home/etc/proxy.yaml"
