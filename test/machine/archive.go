package machine

import (
	"archive/tar"
	"compress/bzip2"
	"io"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/topology/discover"
)

// Archive is the files of a machine of hwloc's collection, a tar.bz2 that holds one directory: those
// that hwloc or we look at, of thousands.
func Archive(t testing.TB, archive string) discover.Files {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	files := discover.Files{}
	for r := tar.NewReader(bzip2.NewReader(f)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(path.Clean(h.Name), "/")
		if name == "" || unused(name, h) {
			continue
		}
		switch h.Typeflag {
		case tar.TypeSymlink:
			files[name] = discover.File{Link: h.Linkname}
		case tar.TypeReg:
			data, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			files[name] = discover.File{Data: data}
		}
	}
}

// wanted are the files under /sys/devices and /sys/bus that hwloc or we look at, of thousands.
var wanted = strings.Fields(`online core_cpus package_cpus thread_siblings core_siblings die_cpus cluster_cpus core_id
	physical_package_id die_id cluster_id shared_cpu_map level type size id coherency_line_size number_of_sets
	physical_line_partition cpumap distance meminfo nr_hugepages cpus numa_node local_cpus uevent class vendor device
	subsystem_vendor subsystem_device revision config secondary_bus_number subordinate_bus_number current_link_speed
	current_link_width address dev_port dev_id node_guid sys_image_guid ibdev state link_layer rate dev`)

var unwantedLink = regexp.MustCompile(`/node/node\d+/cpu\d|/cpu\d+/node\d|/(driver|subsystem|firmware_node|bdi|of_node|module)$`)

func unused(name string, h *tar.Header) bool {
	if h.Typeflag == tar.TypeSymlink {
		return unwantedLink.MatchString(name)
	}
	return (strings.Contains(name, "sys/devices/") || strings.Contains(name, "sys/bus/")) && h.Typeflag == tar.TypeReg && !strings.Contains(name, "/dmi/") &&
		(!slices.Contains(wanted, path.Base(name)) || strings.Contains(name, "/cpufreq/"))
}
