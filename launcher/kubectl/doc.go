// Package kubectl is what mpiup does under the name kubectl-mpiup: a command of mpiup for a job by its name, in one of the job's pods, by the
// user's own kubectl. PURE.
//
//	kubectl mpiup ps pi -n team --json
//	   └ Parse ─▶ Line ─Lists─▶ kubectl get pods, for each kind of job ─▶ Choose ─▶ Pod ─Exec─▶ kubectl exec POD -- mpiup ps --json
//	                                                                                └Logs─▶ kubectl logs POD | mpiup logs
//	what kubectl says when it is forbidden ─Lacks─▶ the right that the user lacks
//
// Concurrency: functions share nothing.
//
// The package starts no program and knows no cluster: cmd/mpiup runs kubectl with the words from here.
package kubectl
