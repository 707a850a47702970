// Package mpilib answers which MPI library a program will load, and so which protocol its ranks need. An MPI library
// speaks either PMI or PMIx to whoever started it. With the other it dies or runs alone, and some die when they find
// both.
//
//	argv ──PATH──▶ script ──#! line──▶ interpreter and its arguments ─┐
//	  ▲            shell script ──its commands──┐                     │
//	  └── wrapper's arguments ◀── env, numactl ◀┴─────────────────────┘
//	ELF file ──DT_NEEDED, as ld.so searches──▶ libmpi.so.40 ──symbols, strings──▶ Open MPI 4.1.4: PMIx
//	python   ──site-packages──▶ mpi4py/MPI.*.so ──────┘
//	nothing  ──MPI_HOME, LD_LIBRARY_PATH, mpirun on PATH, ld.so.cache──▶ a guess, else PMI-1
//
// object.go reads ELF files, package script the commands of a shell script; both read through one budget.
// Files are read, nothing is executed. What it reads may be hostile or may not answer. limits.go bounds the number of
// files, their bytes, the depth, the steps of following scripts and the time. A look that finds nothing within them
// says so and falls back.
//
// A Memory keeps what it found, with every file and variable it asked for. It answers from that as long as all of
// them are as they were. It may be used by several goroutines.
//
// It does not follow what a program opens by name at run time, but for Python's mpi4py, and reads
// 64-bit little-endian ELF files only.
package mpilib
