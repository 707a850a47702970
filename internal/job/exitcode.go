package job

// mpiup's own exit codes, documented in docs/exit-codes.md. Other codes below 240 are the job's own (first failing rank,
// 128+signal, MPI_Abort), or 128+signal where a signal ended mpiup itself.
const (
	ExitUnfit     = 1   // doctor, check-image or a run's pre-flight found what fails
	ExitTimeout   = 110 // --timeout ran out (ETIMEDOUT, as Open MPI's mpirun)
	ExitUsage     = 240 // command line, hostfile, plan
	ExitHosts     = 241 // too few hosts, or a wrong list of them
	ExitResolve   = 242 // a host name has no address
	ExitConnect   = 243 // a host does not answer
	ExitTLS       = 244 // a host's identity, or ours, was refused
	ExitVersion   = 245 // other protocol number
	ExitExec      = 246 // a program could not be started
	ExitInit      = 247 // a rank could not be prepared, or wire-up failed
	ExitAgentLost = 248 // a host was lost while ranks ran
	ExitPreempted = 249 // a pod of the job is being taken away (SIGTERM to an agent or the launcher), or fenced
	ExitInternal  = 250 // a bug in mpiup
	ExitOutput    = 251 // output could not be written
)
