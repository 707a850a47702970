// Package training reads the command lines of two launchers of trainings, horovodrun (horovod 0.28, runner/launch.py) and torchrun (torch 2.15,
// torch/distributed/run.py), and says the same to Open MPI's, which launcher/cli/mpirun reads. PURE.
//
//	horovodrun -np 4 -H a:2,b:2 --cycle-time-ms 5 python train.py
//	   └─▶ -np 4 -H a:2,b:2 -x HOROVOD_CYCLE_TIME=5 -bind-to none -map-by slot --tag-output --fwd-environment python train.py
//
//	torchrun --nnodes 2 --nproc-per-node 4 train.py                                   starts all 8 ranks, on 2 hosts
//	torchrun --nnodes 2 --nproc-per-node 4 --node-rank 1 --master-addr w0 train.py    starts ranks 4-7, here
//	torchrun --nproc-per-node 4 train.py                                              starts 4 ranks, here
//
// The program is handed on apart from the options: to neither launcher is a ":" among its words the begin of another program.
//
// So their jobs are placed, started and ended as any other, without ssh and without servers that look for interfaces. torchrun is typed once
// for each node, or by an operator's pods, which have its options in variables (PET_NNODES). It is typed once for all of them where it is told
// nothing by which the nodes would find each other. Whether Horovod's ranks meet by MPI or by Gloo is for the run (Horovodrun.Gloo, MPI).
//
// All errors are the user's. The functions may be called by any number of goroutines, and read no environment of their own.
package training
