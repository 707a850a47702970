// Package mpirun is the command lines of the launchers that mpiup stands in for: Open MPI's
// (mpirun, orterun, prterun) and Hydra's (mpiexec of MPICH, MVAPICH and Intel MPI).
//
//	mpirun [options] program [args] [: [options] program [args]] ...
//
// One table per family names every option with its arity, what it means here and how far:
//
//	done       it means here what it means there
//	no effect  accepted; what it is for does not exist here, or is so anyway. Said with -v
//	refused    an error that says what to use instead
//
// An option that no table has is an error, never the program's name. Long options may have one
// hyphen or two; a value may follow "=". Options of one program (its number of ranks, variables,
// directory) may stand again after ":"; with Hydra all may.
//
// Facts of the real tools were tried with Open MPI 4.1.4 and 5.0.7 and MPICH 4.0.2.
//
// Parse is pure: files are read, and variables looked up, through Outside. docs/mpirun.md is
// written from the tables, and a test compares.
package mpirun
