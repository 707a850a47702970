/* Stands for hwloc 1.11's libhwloc.so.5 where that cannot be had: as there, loading fails when
 * HWLOC_XMLFILE names a file of hwloc 2. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int hwloc_topology_init(void **t) { *t = NULL; return 0; }

int hwloc_topology_load(void *t) {
  const char *name = getenv("HWLOC_XMLFILE");
  char text[4096] = "";
  FILE *f = name ? fopen(name, "r") : NULL;
  (void)t;
  if (f) {
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
  }
  return strstr(text, "topology version=\"2") ? -1 : 0;
}
