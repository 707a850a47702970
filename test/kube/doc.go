// Package kube tests the binary in hosts that look like the pods of the operators it is made
// for: what kubelet and MPI Operator, Trainer, Volcano, LeaderWorkerSet and Job controllers put
// into a pod, and nothing else.
//
//	test ── pod{name, domain, env, volumes, user} ──▶ network namespace (test/netns)
//	          │                                        PID 1: sh makes the volumes, becomes
//	          │                                        mpiup agent | mpiup run
//	          ├── /etc/hosts      the pod's own full name only, as kubelet writes it
//	          ├── /etc/resolv.conf search NS.svc.D svc.D D [SUB.NS.svc.cluster.local], ndots:5
//	          ├── volumes         tmpfs with ..data links, read-only, modes as the operator asks
//	          └── DNS             a pod's record appears when `mpiup agent --check` succeeds in it
//
// The shapes of the objects were read in kubeflow/mpi-operator v0.8.2, kubeflow/trainer v2.3,
// volcano v1.15, LeaderWorkerSet v0.10 and the Kubernetes documentation. There is no cluster
// here: scheduling, image pulls, CNI plugins and admission are not tested. Pods on one node
// (hostNetwork) are containers with own pid and mount namespaces in one host.
//
// The pods here are written by hand, each with just what its test is about. Pods that operators' own
// code makes of whole manifests are in contract.
//
// Tests run side by side on clusters of their own; nothing is shared between them but the
// binary and the compiled programs.
package kube
