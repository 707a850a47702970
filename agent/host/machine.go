package host

import (
	"sync"

	"github.com/mpiup/mpiup/topology"
	"github.com/mpiup/mpiup/topology/discover"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// known is this host's machine and hwloc's XML of it, read when first wanted and again when
// what this container may use has changed. The zero value is ready for use.
type known struct {
	mu      sync.Mutex
	allowed string            // what was allowed when it was read, guarded by mu
	machine *topology.Machine // guarded by mu
	text    string            // guarded by mu
	err     error             // guarded by mu
}

// xml is hwloc's XML. It takes some milliseconds the first time, and reads one file afterwards.
func (m *known) xml(fsys sysfs.FS) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.read(fsys)
	if m.text == "" && m.err == nil {
		m.text = topology.XML(m.machine)
	}
	return m.text, m.err
}

// get is the machine.
func (m *known) get(fsys sysfs.FS) (*topology.Machine, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.read(fsys)
	return m.machine, m.err
}

// read reads it, unless it is known. mu is held.
func (m *known) read(fsys sysfs.FS) {
	allowed := allowedText(fsys)
	if (m.machine != nil || m.err != nil) && m.allowed == allowed {
		return
	}
	m.allowed, m.text = allowed, ""
	m.machine, m.err = discover.Machine(fsys, 0)
}

// allowedText is the lines Cpus_allowed_list and Mems_allowed_list of /proc/self/status: they
// change with the cpuset, and when a CPU goes on- or offline.
func allowedText(fsys sysfs.FS) string {
	status, err := fsys.Prefix("proc/self/status", 16<<10)
	if err != nil {
		return ""
	}
	cpus, _ := sysfs.Field(string(status), "Cpus_allowed_list:")
	nodes, _ := sysfs.Field(string(status), "Mems_allowed_list:")
	return cpus + " " + nodes
}
