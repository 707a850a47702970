// Package eval works out what a small function of another process would answer, by that process's memory. Nothing runs in the process, and nothing
// is written there:
//
//	instructions ──read from its memory──▶ decoded one by one ──▶ registers and a stack of our own
//	data         ──read from its memory──▶          │ writes go to our own stack alone
//	                                                ▼ ret
//	                                   what was stored at the function's argument
//
// It is made for functions such as MPI_Initialized, which load a number, compare it and store the result, perhaps through another function. They
// are a dozen instructions in every MPI library, while the variable they look at has no name in most builds. Whatever else comes, a system call,
// thread-local data, an instruction that is not known, a loop, ends the attempt: there is no answer then, and never a wrong one.
//
// PURE but for the reader that it is handed. Memory and instructions may be anything: steps and stack are bounded. It knows x86-64.
package eval
