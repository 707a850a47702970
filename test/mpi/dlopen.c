// Opens an MPI library by name at run time, as plugins and language bindings do, so that the program's own file shows none.
//
//	dlopen LIBRARY     MPI_Init, "rank R of N", MPI_Finalize
//	dlopen LIBRARY no  only opens the library, and takes a tenth of a second
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *symbol(void *library, const char *name)
{
    void *at = dlsym(library, name);
    if (!at) {
        fprintf(stderr, "%s: %s\n", name, dlerror());
        exit(2);
    }
    return at;
}

int main(int argc, char **argv)
{
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    if (argc > 2) {
        usleep(100000);
        printf("opened\n");
        return 0;
    }
    // The world's handle is an address with Open MPI and a number with MPICH.
    void *world = dlsym(library, "ompi_mpi_comm_world");
    if (!world)
        world = (void *)0x44000000L;
    int rank = -1;
    int size = -1;
    ((int (*)(int *, char ***))symbol(library, "MPI_Init"))(NULL, NULL);
    ((int (*)(void *, int *))symbol(library, "MPI_Comm_rank"))(world, &rank);
    ((int (*)(void *, int *))symbol(library, "MPI_Comm_size"))(world, &size);
    printf("rank %d of %d\n", rank, size);
    fflush(stdout);
    ((int (*)(void))symbol(library, "MPI_Finalize"))();
    return 0;
}
