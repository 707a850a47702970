/* examples/checkpoint as it is, but that Debian 12's MPICH comes out of MPI_Finalize. */
#include "../../examples/checkpoint/checkpoint.c"

#include "finalize.h"
