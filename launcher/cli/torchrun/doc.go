// Package torchrun reads the command line of PyTorch's launcher (torch 2.15, torch/distributed/run.py), and says what of
// the job this pod starts. PURE.
//
//	torchrun --nnodes 2 --nproc-per-node 4 train.py                                   starts all 8 ranks, on 2 hosts
//	torchrun --nnodes 2 --nproc-per-node 4 --node-rank 1 --master-addr w0 train.py    starts ranks 4-7, here
//	torchrun --nproc-per-node 4 train.py                                              starts 4 ranks, here
//
// torchrun is typed once for each node, or by an operator's pods, which have its options in variables (PET_NNODES).
// It is typed once for all of them where it is told nothing by which the nodes would find each other.
//
// The words for the run are those of Open MPI's launcher, which launcher/cli/mpirun reads. All errors are the user's.
// Parse may be called by any number of goroutines, and reads no environment of its own.
package torchrun
