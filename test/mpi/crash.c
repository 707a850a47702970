/* crash: all ranks pass a barrier, and then rank 1 writes to address 0, two functions below main. The others wait for it. */
#include <mpi.h>

static int rank;

__attribute__((noinline)) void apply_flux(volatile int *cell) { *cell = rank; }

__attribute__((noinline)) void take_step(volatile int *cell) {
    apply_flux(cell);
    rank++; /* so that the call above is no tail call, which leaves no frame */
}

int main(int argc, char **argv) {
    int cell = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    take_step(rank == 1 ? (volatile int *)0 : &cell);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
