// Package integration holds the tests of mpiup as a user has it: the binary, real MPI programs,
// and hosts that are network namespaces with an agent each as PID 1. Everything is asserted from
// outside: output, exit codes, processes, files, sockets.
//
//	TestMain ── lab ── cluster: launcher, w0, w1, w2 (agents run as long as the package's tests)
//	                ├─ run(job)   a mpiup run on the launcher
//	                └─ mpiup(...) any other command there
//
// Tests run beside each other on the lab's agents, as concurrent runs of one launcher do; those
// that stop or start agents make a cluster of their own. All are one package, since each package
// would start hosts and agents anew and wait for the longest of its tests.
//
// A file's name begins with its theme:
//
//	agent    the agent in its container: its start and end, policy, what runs leave there
//	cli      commands that start nothing: peers, version, help, completion
//	doctor   mpiup doctor: hosts, the network between them, a job's plan
//	end      how a run ends: failures, signals, time limits, exit codes
//	exec     mpiup exec
//	hang     runs that hang or are slow: what mpiup says of them, and what mpiup ps and mpiup stacks show
//	guide    docs/guide.md, followed line by line
//	io       standard input and output of ranks
//	lab      what all tests share
//	machine  topology and binding
//	mpi      programs of MPI libraries: their protocol, what they do together, their network
//	mpirun   mpiup called mpirun or mpiexec, compared with the real ones
//	pmi      who may speak to a rank's PMI or PMIx server
//	pmix     clients of PMIx without MPI
//	restart  ranks that are started again, and hosts that come in for lost ones
//	run      what a run has when its ranks start: hosts, slots, variables, directory, files
//	spawn    MPI_Comm_spawn
//	ssh      mpiup called ssh, and what calls it: pdsh, deepspeed, horovodrun, MPI's own launchers
//	up       mpiup up: one command in every pod of a job
//	train    trainings of torch, JAX, TensorFlow, Horovod and what is built on them
package integration
