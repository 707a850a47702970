// Package control is a cluster's control plane for tests: stores of objects with the rules of an
// API server that controllers lean on, controllers of others run as they are, and the controllers
// that Kubernetes itself has, as far as the others need them.
//
//	example.yaml ─▶ API ─▶ MPI Operator's own controller ─▶ Pods, Service, ConfigMap, Secret, Job
//	                 │     JobSet's own, Trainer's own   ─▶ Jobs, Services ...
//	                 │     LeaderWorkerSet's own         ─▶ StatefulSets, Service
//	                 └───▶ Controllers: Job, StatefulSet ─▶ Pods
//	                       endpoints: Services and Pods  ─▶ DNS records
//
// The stores are client-go's fake clientsets. They know neither versions, status as a resource of
// its own nor graceful deletion, all of which controllers rely on; [API] adds these. It does no
// admission but the defaults that are named in it, no authorization and no garbage collection.
//
// The Job controller follows pkg/controller/job of Kubernetes 1.35: indexes, host names, back-off
// and its limit, suspension, podReplacementPolicy. It does not play failure policies, deadlines, or removal after a
// time.
//
// A Run method blocks until all that it started has ended; everything else may be called from any
// goroutine.
package control
