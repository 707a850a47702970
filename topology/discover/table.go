package discover

// entry is files that are taken.
type entry struct {
	dir     string                        // * stands for part of a name
	files   string                        // in each directory
	private func(*private, string) string // takes out what tells of somebody; nil: nothing does
	empty   bool                          // only that it is there
}

// table is what topology/discover, gpu and rdma (GIDs aside) read, of all CPUs: they themselves read a core's
// or a cache's files at its first CPU.
var table = []entry{
	{dir: "sys/devices/system/cpu", files: "online cpu*/online cpu*/cpu_capacity cpu*/regs/identification/midr_el1"},
	{dir: "sys/devices/system/cpu/cpu*/topology", files: "core_cpus package_cpus die_cpus cluster_cpus thread_siblings core_siblings " +
		"core_id die_id cluster_id physical_package_id"},
	{dir: "sys/devices/system/cpu/cpu*/cache/index*", files: "level type size id shared_cpu_map coherency_line_size number_of_sets " +
		"physical_line_partition"},
	{dir: "sys/devices", files: "cpu_core/cpus cpu_atom/cpus cpu_lowpower/cpus"},
	{dir: "sys/devices/system/node", files: "online node*/cpumap node*/distance node*/access*/initiators/node*/cpumap"},
	{dir: "sys/devices/system/node", files: "node*/meminfo", private: (*private).memory},
	{dir: "sys/devices/system/node", files: "node*/hugepages/*/nr_hugepages"},
	{dir: "sys/kernel/mm/hugepages", files: "*/nr_hugepages"},
	{dir: "sys/bus/pci/devices/*", files: "uevent", private: lines("PCI_", "DRIVER=")},
	{dir: "sys/bus/pci/devices/*", files: "class vendor device subsystem_vendor subsystem_device revision local_cpus numa_node " +
		"current_link_speed current_link_width secondary_bus_number subordinate_bus_number drm/render*/dev"},
	{dir: "sys/bus/pci/devices/*", files: "config", private: (*private).config},
	{dir: "sys/class/net/*", files: "address", private: (*private).address},
	{dir: "sys/class/net/*", files: "device/numa_node"},
	{dir: "sys/class/infiniband/*", files: "node_guid sys_image_guid", private: (*private).address},
	{dir: "sys/class/infiniband/*", files: "device/numa_node ports/*/state ports/*/link_layer ports/*/rate"},
	{dir: "sys/class/infiniband_verbs/*", files: "ibdev"},
	{dir: "sys/class/infiniband/*", files: "device/driver device/physfn"},
	{dir: "sys/class/kfd/kfd/topology/nodes/*", files: "properties io_links/*/properties mem_banks/*/properties",
		// unique_id and hive_id are serial numbers
		private: lines("cpu_cores_count ", "simd_count ", "location_id ", "domain ", "drm_render_minor ", "vendor_id ", "device_id ",
			"type ", "node_to ", "heap_type ", "size_in_bytes ")},
	{dir: "sys/class/drm/renderD*", files: "device/product_name"},
	{dir: "sys/bus/pci/devices/*/drm/renderD*", files: "device/driver"},
	{dir: "sys/module", files: "nvidia/version nvidia_peermem/version amdgpu/version"},
	{dir: "sys/kernel/mm/memory_peers", files: "nv_mem/version nv_mem_nc/version"},
	{dir: "proc/driver/nvidia/capabilities/gpu*/mig/gi*", files: "access ci*/access"},
	{dir: "sys/class/dmi/id", files: "product_name board_vendor board_name chassis_type sys_vendor"},
	{dir: "proc", files: "cpuinfo", private: (*private).cpuinfo},
	{dir: "proc", files: "meminfo", private: (*private).memory},
	{dir: "proc", files: "mounts", private: (*private).mounts},
	{dir: "proc/self", files: "mountinfo", private: (*private).mountinfo},
	{dir: "proc/self", files: "status", private: lines("Cpus_allowed_list:", "Mems_allowed_list:")},
	{dir: "proc/self", files: "cpuset", private: (*private).group},
	{dir: "proc/self", files: "cgroup", private: (*private).membership},
	{dir: "proc/driver/nvidia/gpus/*", files: "numa_status"},
	{dir: "proc/driver/nvidia/gpus/*", files: "information",
		private: lines("Model:", "Bus Location:", "Device Minor:", "GPU Excluded:", "Blacklisted:")},
	{dir: "proc/sys/kernel", files: "osrelease"},
	{dir: "dev", files: "null kfd nvidia* nvidia-caps/nvidia-cap* dri/renderD* infiniband/uverbs* hfi1_* gdrdrv", empty: true},
}

// groupFiles are those of a control group and of the groups above it.
const groupFiles = "cpuset.cpus.effective cpuset.mems.effective cpuset.cpus cpuset.mems cpuset.effective_cpus cpuset.effective_mems " +
	"cpus mems effective_cpus effective_mems cpu.max cpu.cfs_quota_us cpu.cfs_period_us"
