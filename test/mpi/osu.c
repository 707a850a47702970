/* A stand-in for OSU's micro-benchmarks, by whose names it is started (osu_bw, osu_latency, osu_allreduce): its ranks
 * meet, and it prints tables of their form (that of version 7) and takes their -m MIN:MAX, -i and -x.
 *
 * What it prints is no measurement, so that tests of what becomes of it give the same on any machine: 1000 MB/s, 10 us.
 * A file "slow" beside it has a factor and, by commas, hosts "w1" and ways "w0>w1" that are so many times worse; beside a
 * file "old" it does not know -m. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/* beside opens a file in the program's directory, NULL without one. */
static FILE *beside(const char *program, const char *file)
{
	char path[4096];
	snprintf(path, sizeof path, "%.*s%s", (int)(name(program) - program), program, file);
	return fopen(path, "r");
}

/* listed: word stands between commas. */
static int listed(const char *list, const char *word)
{
	size_t n = strlen(word);
	for (const char *p = list; p && *p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
		if (strncmp(p, word, n) == 0 && (p[n] == ',' || p[n] == 0))
			return 1;
	return 0;
}

int main(int argc, char **argv)
{
	int rank, size, low = 1, high = 4 << 20, c;
	char host[64] = "", hosts[64][64], way[160];
	const char *what = name(argv[0]);
	char slow[512] = "";
	double factor = 1;

	MPI_Init(&argc, &argv);
	FILE *file = beside(argv[0], "slow");
	if (file && fscanf(file, "%lf %511s", &factor, slow) != 2)
		slow[0] = 0;
	int old = beside(argv[0], "old") != NULL;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	while ((c = getopt(argc, argv, old ? "i:x:" : "m:i:x:")) != -1) {
		if (c == '?') {
			if (rank == 0)
				printf("Usage: %s [options]\n", what);
			MPI_Finalize();
			return 1;
		}
		if (c == 'm' && sscanf(optarg, "%d:%d", &low, &high) < 2)
			high = low;
	}
	if (size > 64 || (strcmp(what, "osu_allreduce") != 0 && size != 2)) {
		fprintf(stderr, "This test requires exactly two processes\n");
		MPI_Finalize();
		return 1;
	}
	gethostname(host, sizeof host - 1);
	MPI_Allgather(host, sizeof host, MPI_CHAR, hosts, sizeof host, MPI_CHAR, MPI_COMM_WORLD);
	double worse = 1;
	for (int i = 0; i < size; i++)
		if (listed(slow, hosts[i]))
			worse = factor;
	snprintf(way, sizeof way, "%s>%s", hosts[0], hosts[size - 1]);
	if (listed(slow, way))
		worse = factor;
	if (rank == 0) {
		printf("\n# OSU MPI %s Test v7.4\n# Datatype: MPI_CHAR.\n", what);
		printf(strcmp(what, "osu_bw") == 0 ? "# Size      Bandwidth (MB/s)\n" : "# Size       Avg Latency(us)\n");
	}
	for (int n = low; n <= high && rank == 0; n *= 2)
		printf("%-10d%18.2f\n", n, strcmp(what, "osu_bw") == 0 ? 1000 / worse : 10 * worse);
	MPI_Finalize();
	return 0;
}
