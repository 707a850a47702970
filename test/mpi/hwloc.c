/* Loads the machine's topology with whichever hwloc it is linked with, and says how that went. It
 * declares what it calls, which is the same in hwloc 1 and 2, so that no headers are needed. */
#include <stdio.h>
#include <stdlib.h>

typedef struct hwloc_topology *hwloc_topology_t;
int hwloc_topology_init(hwloc_topology_t *);
int hwloc_topology_load(hwloc_topology_t);

int main(void) {
  hwloc_topology_t t;
  const char *file = getenv("HWLOC_XMLFILE");
  int init = hwloc_topology_init(&t);
  int load = hwloc_topology_load(t);
  printf("load %d, file %s\n", init ? init : load, file ? "given" : "none");
  return 0;
}
