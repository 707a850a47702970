// Package integration holds the tests of mpiup as a user has it: the binary, real MPI programs,
// and hosts that are network namespaces with an agent each as PID 1. Everything is asserted from
// outside: output, exit codes, processes, files, sockets.
//
//	TestMain ── lab ── cluster: launcher, w0, w1, w2 (agents run as long as the package's tests)
//	                ├─ run(job)   a mpiup run on the launcher
//	                └─ mpiup(...) any other command there
//
// Tests run beside each other on the lab's agents, as concurrent runs of one launcher do; those
// that stop or start agents make a cluster of their own.
package integration
