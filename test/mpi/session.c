/* session: two MPI sessions one after the other in one process (MPI 4.0; MPICH before 4.3 crashes
 * in the second by itself, under any launcher; later ones send PMI init twice on one descriptor; Open MPI
 * has sessions from 5.0 on, Intel MPI calls itself MPICH 3.4). Each does a barrier; rank 0 prints "session ok". */
#include <mpi.h>
#include <stdio.h>

#include "finalize.h"

#if MPICH_NUMVERSION >= 40300000 || OMPI_MAJOR_VERSION >= 5 || defined I_MPI_NUMVERSION
static int once(void) {
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    int rank;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "mpiup.test", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Barrier(comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    MPI_Session_finalize(&session);
    return rank;
}

int main(void) {
    once();
    if (once() == 0) puts("session ok");
    return 0;
}
#else
int main(void) {
    puts("session ok (not in this MPI)");
    return 0;
}
#endif
