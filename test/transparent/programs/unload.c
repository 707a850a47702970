/* A plugin that is linked with MPI is opened, used, closed and gone, three times; MPI itself, whose threads go on, stays. With -DPLUGIN the plugin; the program
   itself is not linked with MPI. */
#define _GNU_SOURCE
#include <stdio.h>
#ifdef PLUGIN
#include <mpi.h>
int run(int times, int end) {
	int up, one = 1, sum = 0, rank;
	MPI_Initialized(&up);
	if (!up)
		MPI_Init(NULL, NULL);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (int i = 0; i < times; i++)
		MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (end)
		MPI_Finalize();
	return rank == 0 ? sum : 0;
}
#else
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
static int loaded(const char *name) {
	char line[4096];
	int found = 0;
	FILE *f = fopen("/proc/self/maps", "r");
	while (fgets(line, sizeof line, f))
		found |= strstr(line, name) != NULL;
	fclose(f);
	return found;
}
int main(int argc, char **argv) {
	char path[4096];
	snprintf(path, sizeof path, "%s.plugin.so", argv[0]);
	(void)argc;
	int sum = 0;
	for (int i = 0; i < 3; i++) {
		void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		Dl_info mpi;
		if (!plugin || !dladdr(dlsym(plugin, "MPI_Init"), &mpi) || !dlopen(mpi.dli_fname, RTLD_NOW | RTLD_NODELETE))
			return 2;
		int (*run)(int, int) = (int (*)(int, int))dlsym(plugin, "run");
		sum = run(100, i == 2);
		dlclose(plugin);
		if (sum)
			printf("%d ranks; closed, and still there: %d\n", sum, loaded(".plugin.so"));
	}
	fflush(stdout);
	return 0;
}
#endif
