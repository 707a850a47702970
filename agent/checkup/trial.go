package checkup

// A trial is what mpiup doctor starts on each host, as a rank of a job, to try what cannot be looked up: whether a
// directory is shared, and whether processors compute what they should.
//
//	shared DIR:  write ─▶ read ─▶ clean      a phase begins on all hosts when the last has ended on all
//	   write   files of 4 KiB, a file as large as a checkpoint, a mark
//	   read    the marks of all, the next host's file, a counter under a lock with all others
//	   clean   the counter's end; the trial's directory goes
//	compute:     each CPU for itself, all at once: integers, floating point, SHA-256, copies ─▶ digests that are known
//
// A trial touches nothing in DIR but a directory of its own, ".mpiup-doctor-" and the launcher's random token, and follows no
// link out of it. What it writes and how long it computes is bounded by its caller, and by trial.MaxSize and MaxTime.
//
// Each function blocks until it is done, and waits for all that it started. The package judges nothing.
