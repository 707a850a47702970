// Package horovodrun reads the command line of Horovod's launcher (horovod 0.28, runner/launch.py) and says the same
// to Open MPI's, which launcher/cli/mpirun reads. PURE.
//
//	horovodrun -np 4 -H a:2,b:2 --cycle-time-ms 5 python train.py
//	   └─▶ -np 4 -H a:2,b:2 -x HOROVOD_CYCLE_TIME=5 -bind-to none -map-by slot --tag-output --fwd-environment python train.py
//
// So a job of horovodrun is placed, started and ended as any other, without ssh and without servers that look for
// interfaces. Whether its ranks meet by MPI or by Gloo is for the run (Line.Gloo, Line.MPI).
//
// All errors are the user's. Parse may be called by any number of goroutines. Elastic jobs are refused by name.
package horovodrun
