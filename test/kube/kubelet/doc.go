// Package kubelet runs Kubernetes pods on the hosts of test/netns: it does for a Pod object what
// kubelet, a container runtime and a node do for it, as far as a program in the pod can see.
//
//	Pod object ──▶ host of its own (hostNetwork: the node's)      ──▶ status in the Pod object
//	                ├── host name, /etc/hosts, /etc/resolv.conf       podIPs, phase, Ready,
//	                ├── volumes of files with their modes             conditions, restarts,
//	                ├── environment, $(VAR) expanded                  exit codes, messages
//	                ├── init containers, one after the other
//	                └── PID 1: the container's command, as its user
//
// The table of pods in testdata/pods says what a real kubelet makes of each: statuses, and what a program sees. The tests
// hold this package to it, and a real cluster as well (MPIUP_CLUSTER=1), which has written it.
//
// Facts are from Kubernetes 1.35: pkg/kubelet/kubelet_pods.go (host name, hosts file, environment),
// pkg/kubelet/network/dns (resolv.conf), pkg/volume/util/atomic_writer.go and pkg/volume/volume_linux.go
// (volumes), pkg/kubelet/prober (probes), pkg/kubelet/kuberuntime (restarts).
//
// An image is a set of files laid over this machine's own file system ([Image]). Durations that
// Kubernetes counts in seconds, such as periods of probes and back-off, are counted in
// [Config.Second]s; grace periods, deadlines and probes' timeouts are real.
//
// There is no node but one, no registry and no user namespace. A limit of memory or CPU has no effect, an emptyDir in
// memory is a directory, a token is a text, and a kind of QoS is none but BestEffort. A pod has one container besides its
// init containers, with a readiness probe and a preStop command at most. What else a Pod asks for ends it in phase Failed
// with a message that names it.
//
// Run starts a goroutine per pod and waits for all of them; methods may be called from any
// goroutine.
package kubelet
