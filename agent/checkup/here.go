package checkup

import (
	"slices"
	"strings"
)

// machine is what to do on a machine, by what to do in a pod of Kubernetes.
var machine = strings.NewReplacer(
	ShmFix, "make it larger (mount -o remount,size=8G /dev/shm; docker run --shm-size 8g)",
	"mount a volume {name: tmp, emptyDir: {}} at /tmp, or set", "let the agent's user write to /tmp, or set",
	"add securityContext.capabilities.add: [IPC_LOCK]", "raise the limit memlock (limits.conf, or LimitMEMLOCK=infinity of the agent's service)",
	"set LimitMEMLOCK=infinity for the node's container runtime (containerd.service), since IPC_LOCK has no effect for a user other than root",
	"raise the limit memlock (limits.conf, or LimitMEMLOCK=infinity of the agent's service)",
	"set LimitNOFILE=1048576 for the node's container runtime", "raise the limit nofile (limits.conf, or LimitNOFILE=1048576 of the agent's service)",
	"add securityContext.capabilities.add: [SYS_PTRACE], or quiet", "quiet",
	"request hugepages-2Mi in resources.limits, or set", "set",
	"it was not requested of the RDMA device plugin", "it was not handed to this container",
	"request devices of the RDMA device plugin (resources.limits, as rdma/hca_shared_devices_a or the SR-IOV resource)",
	"hand them to it (docker run --device /dev/infiniband)",
	"request one of the RDMA device plugin (resources.limits), or load mlx5_ib on the node", "load mlx5_ib",
)

// Here is a text of what to do as it holds where the container has this environment.
func Here(env []string, text string) string {
	if slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "KUBERNETES_SERVICE_HOST=") }) {
		return text
	}
	return machine.Replace(text)
}
