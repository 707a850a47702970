/* What a process finds of itself in /proc before MPI_Init: descriptors, limits, masks, and the names of its variables. */
#include <dirent.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void lines(const char *file, const char *const *wanted) {
	char line[512];
	FILE *f = fopen(file, "r");
	while (f && fgets(line, sizeof line, f))
		for (int i = 0; !wanted[0] || wanted[i]; i++)
			if (!wanted[0] || strncmp(line, wanted[i], strlen(wanted[i])) == 0) {
				printf("%s", line);
				break;
			}
	if (f)
		fclose(f);
}
int main(int argc, char **argv, char **env) {
	static const char *const masks[] = {"Umask", "SigBlk", "SigIgn", "SigCgt", "Cap", "NoNewPrivs", "Seccomp", "Cpus_allowed_list", "Mems_allowed_list", NULL}, *const all[] = {NULL};
	char *copies[4096];
	int n = 0, rank;
	DIR *d = opendir("/proc/self/fd");
	for (struct dirent *e; (e = readdir(d));) {
		char path[300], to[300] = "";
		snprintf(path, sizeof path, "/proc/self/fd/%s", e->d_name);
		if (readlink(path, to, sizeof to - 1) > 0 && atoi(e->d_name) != dirfd(d))
			printf("descriptor %s %.5s\n", e->d_name, to);
	}
	closedir(d);
	lines("/proc/self/limits", all);
	lines("/proc/self/status", masks);
	for (; env[n] && n < 4095; n++)
		copies[n] = env[n];
	for (int i = 0; i < n; i++)
		printf("variable %.*s\n", (int)strcspn(copies[i], "="), copies[i]);
	fflush(stdout);
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Barrier(MPI_COMM_WORLD);
	return MPI_Finalize();
}
