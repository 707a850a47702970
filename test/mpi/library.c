/* library: each rank prints "rank R of N on HOST, LIBRARY" after a barrier; LIBRARY is the first line of what
 * MPI_Get_library_version says. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "finalize.h"

int main(int argc, char **argv) {
    int rank, size, len;
    char host[MPI_MAX_PROCESSOR_NAME], library[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(host, &len);
    MPI_Get_library_version(library, &len);
    library[strcspn(library, "\n")] = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    printf("rank %d of %d on %s, %s\n", rank, size, host, library);
    MPI_Finalize();
    return 0;
}
