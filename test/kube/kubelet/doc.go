// Package kubelet runs Kubernetes pods on the hosts of test/netns: it does for a Pod object what
// kubelet, a container runtime and a node do for it, as far as a program in the pod can see.
//
//	Pod object ──▶ host of its own (hostNetwork: the node's)      ──▶ status in the Pod object
//	                ├── host name, /etc/hosts, /etc/resolv.conf       podIPs, phase, Ready,
//	                ├── Secrets, ConfigMaps, emptyDirs with modes     restarts, exit codes
//	                ├── environment, $(VAR) expanded
//	                ├── init containers, one after the other
//	                └── PID 1: the container's command, as its user
//
// Facts are from Kubernetes 1.35: pkg/kubelet/kubelet_pods.go (host name, hosts file, environment),
// pkg/kubelet/network/dns (resolv.conf), pkg/volume/util/atomic_writer.go and pkg/volume/volume_linux.go
// (volumes), pkg/kubelet/prober (probes), pkg/kubelet/kuberuntime (restarts).
//
// An image is a set of files laid over this machine's own file system ([Image]). Durations that
// Kubernetes counts in seconds, such as periods of probes and back-off, are counted in
// [Config.Second]s; grace periods and probes' timeouts are real.
//
// There is no node but one, no registry, no resource limit and no user namespace. A pod has one
// container besides its init containers, with a readiness probe at most. What a Pod asks for that
// is not played ends it in phase Failed with a message that names it.
//
// Run starts a goroutine per pod and waits for all of them; methods may be called from any
// goroutine.
package kubelet
