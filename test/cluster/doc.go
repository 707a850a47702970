// Package cluster runs mpiup on a real Kubernetes of one machine, and says what an administrator sees there.
//
//	make cluster ── start.sh ── build.sh beside debs.sh, images.sh ── up.sh: two nodes, each a set of namespaces
//	                 node 1: etcd, API server, controllers, scheduler, containerd, kubelet, kube-proxy
//	                 node 2: containerd, kubelet, kube-proxy
//	                 pods:   CoreDNS, MPI Operator, JobSet, Trainer, LeaderWorkerSet, and jobs
//	make cluster-check ── check.sh: the tests of this package, which print a transcript, and the pods of test/kube/kubelet
//	make cluster-down ── down.sh
//
// All of it is built from package registries. A namespace (type space) belongs to one test, which watches its pods:
// each change of a pod is a line of the transcript, with the seconds since the manifest was applied. Several tests run at a
// time, which mostly wait; who looks at the seconds has them run one after the other (PARALLEL=1). What belongs to the whole
// cluster has a name of its own in each test: a runtime of Trainer's, the pods that leave a node which is drained.
//
// They run where $MPIUP_CLUSTER says so, and none in CI. test/kube/contract has the same manifests with the operators' own
// code on a played cluster, which CI runs.
package cluster
