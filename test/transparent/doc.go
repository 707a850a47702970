// Package transparent holds that a rank which is watched (--watch-ranks) behaves as one that is not. Small programs that do what no suite of an
// MPI library does (programs/) run under mpiup without the library and with it, and under the MPI's own launcher: they say the same.
//
// CI runs a sample; make transparent runs all of them, with Open MPI 5 and MPICH 5 from PyPI too, and prints what differs.
package transparent
