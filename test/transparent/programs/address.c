/* A function's address in a table, in a plugin opened for itself and as deeply as can be, and compared with the program's own. With -DPLUGIN the plugin. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
typedef int barrier(MPI_Comm);
#ifdef PLUGIN
barrier *plugins_own(void) { return MPI_Barrier; }
int plugins_call(MPI_Comm comm) { return MPI_Barrier(comm); }
#else
#include <dlfcn.h>
static barrier *const table[] = {MPI_Barrier};
int main(int argc, char **argv) {
	int rank, failed = 0;
	char path[4096];
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	snprintf(path, sizeof path, "%s.plugin.so", argv[0]);
	for (int i = 0; i < 2; i++) {
		void *plugin = dlopen(path, i ? RTLD_NOW | RTLD_DEEPBIND : RTLD_LAZY);
		barrier *(*own)(void) = (barrier * (*)(void)) dlsym(plugin, "plugins_own");
		barrier *call = (barrier *)dlsym(plugin, "plugins_call");
		failed |= call(MPI_COMM_WORLD) | own()(MPI_COMM_WORLD) | table[0](MPI_COMM_WORLD);
		if (rank == 0)
			printf("the same address: %d, %d\n", own() == MPI_Barrier, own() == table[0]);
		dlclose(plugin);
	}
	if (rank == 0)
		printf("failed %d\n", failed);
	return MPI_Finalize();
}
#endif
