// Package gloo is the meeting place of Horovod's Gloo ranks: the key-value server that horovodrun runs on its own
// host (horovod 0.28, runner/http/http_server.py). Here each agent serves it on loopback. So the cluster has no open
// HTTP port, and values cross it inside mpiup's own TLS.
//
//	rank ──PUT /scope/key──▶ its own port here ──Update──▶ launcher ──Update──▶ the job's other hosts
//	rank ──GET /scope/key──▶ what this host knows; waits a moment for what is to come, then 404
//	rank ──DELETE /scope/rank──▶ it has finished the scope's rendezvous
//
// A scope's life is an epoch. A rank that calls hvd.init() a second time puts and gets in the next one. So it never
// meets an address of the first, however late the others are. A rank's epoch is the number of DELETEs it has sent,
// which is known because every rank has a port of its own. A scope's values go once all who put one have finished:
// each has then met all others.
//
// Store is a state without goroutines; its methods may be called from any. Server serves the ports
// until its Run returns. All that is kept is bounded (limits.go).
//
// It does not know who may connect (Config.Check does), nor how updates travel.
package gloo
