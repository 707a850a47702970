// Command mpiup-nvml asks NVIDIA's management library (NVML) for the GPUs that this container may
// use and prints gpu.Report as one line of JSON, or a line an interval.
//
//	mpiup-nvml                   once
//	mpiup-nvml --interval 10s    and how busy they are, until its reader goes or SIGTERM
//
// It is a program of its own because it calls NVML by cgo and finds it at run time (libnvidia-ml.so.1 comes with the
// driver), while mpiup is static. mpiup runs it when it stands beside it, with a time limit: NVML can hang in the
// kernel. It is linked lazily (-z lazy), for libraries of older drivers lack functions.
//
// Exit codes: 0 done; 1 NVML is not here or tells nothing, with the reason on standard error; 2
// wrong arguments.
package main
