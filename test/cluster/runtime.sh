#!/usr/bin/env bash
# runtime.sh N: starts containerd in node N, with the images, and the bridge of its pods.
set -euo pipefail
. "$(dirname "$0")/versions.sh"
. "$(dirname "$0")/nodes.sh"
n=$1 home=$run/node$1
cat >"$home/etc/containerd.toml" <<TOML
version = 2
oom_score = 0
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "registry.k8s.io/pause:3.10"
  restrict_oom_score_adj = true # without CAP_SYS_RESOURCE none can be lowered
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$home/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
TOML
cat >"$home/cni/10-bridge.conflist" <<JSON
{"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "bridge", "bridge": "pods0", "isGateway": true, "hairpinMode": true,
  "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.$n.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
JSON
daemon "$n" containerd containerd -c "$home/etc/containerd.toml"
eventually 30 in_node "$n" ctr version
in_node "$n" ctr -n k8s.io images import "$CLUSTER/images.tar" >/dev/null
