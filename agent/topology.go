package agent

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/topology"
	"github.com/mpiup/mpiup/topology/discover"
	"github.com/mpiup/mpiup/topology/hwlocxml"
	"github.com/mpiup/mpiup/topology/sysfs"
	"golang.org/x/sys/unix"
)

// Most of a rank's MPI_Init is hwloc reading /sys, the same on every rank. So the agent reads the
// machine once and hands its ranks hwloc's XML of it:
//
//	HWLOC_XMLFILE                        a file in the agent's memory, /proc/PID/fd/N
//	HWLOC_THISSYSTEM=1                   it describes this machine: binding works as without
//	HWLOC_THISSYSTEM_ALLOWED_RESOURCES=1 what the rank's cpuset allows is still asked of the kernel
//	pmix.hwlocxml2, PMI_hwloc_xmlfile    the same by PMIx (the text) and PMI (the file)
//
// It is a hint: where it cannot be made, ranks find out themselves.

// knownMachine is this host's machine and hwloc's XML of it, read when first wanted and again when
// what this container may use has changed. The zero value is ready for use.
type knownMachine struct {
	mu      sync.Mutex
	allowed string            // what was allowed when it was read, guarded by mu
	machine *topology.Machine // guarded by mu
	text    string            // guarded by mu
	err     error             // guarded by mu
}

// xml is hwloc's XML. It takes some milliseconds the first time, and reads one file afterwards.
func (m *knownMachine) xml(fsys sysfs.FS) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.read(fsys)
	if m.text == "" && m.err == nil {
		m.text = hwlocxml.String(m.machine)
	}
	return m.text, m.err
}

// get is the machine.
func (m *knownMachine) get(fsys sysfs.FS) (*topology.Machine, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.read(fsys)
	return m.machine, m.err
}

// read reads it, unless it is known. mu is held.
func (m *knownMachine) read(fsys sysfs.FS) {
	allowed := allowedText(fsys)
	if (m.machine != nil || m.err != nil) && m.allowed == allowed {
		return
	}
	m.allowed, m.text = allowed, ""
	m.machine, m.err = discover.Machine(fsys, discover.Config{})
}

// allowedText is the lines Cpus_allowed_list and Mems_allowed_list of /proc/self/status: they
// change with the cpuset, and when a CPU goes on- or offline.
func allowedText(fsys sysfs.FS) string {
	status, err := fsys.Prefix("proc/self/status", 16<<10)
	if err != nil {
		return ""
	}
	var b strings.Builder
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "Cpus_allowed_list:") || strings.HasPrefix(line, "Mems_allowed_list:") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// readMachine begins to read the machine, so that it is known when the first job comes.
func (a *Agent) readMachine() {
	a.running.Go(func() { a.machine.xml(sysfs.Host()) }) // who needs it asks again and gets the error
}

// hint is what ranks of one job are told of the machine; empty fields: nothing.
type hint struct {
	path string // of a file with xml
	xml  string
}

// topologyHint makes a job's hint. A rank that looks for the machine elsewhere, by the user's or the
// container's will, gets none.
func (st *step) topologyHint() hint {
	s, l := st.s, st.launch
	if l.Exec != nil || l.Job.NoTopologyHint || len(l.Procs) == 0 || s.userLooksElsewhere() {
		return hint{}
	}
	xml, err := s.agent.machine.xml(sysfs.Host())
	if err != nil {
		s.notice(false, "ranks find the host's topology themselves: %v", err)
		return hint{}
	}
	path, err := s.hints.path(xml)
	if err != nil {
		s.notice(false, "ranks get no file of the host's topology, and find it themselves: %v", err)
	}
	return hint{path, xml}
}

// hintFiles is what a session's ranks were given: files in memory, which ranks open by their names
// under /proc. They need no directory that can be written to, nobody can change them, and nothing
// of them is left however the agent ends. A rank that may not look there (of another user, in a
// container of its own) finds no file, and hwloc reads /sys. The zero value has none.
type hintFiles struct {
	mu   sync.Mutex
	text string     // of the latest, guarded by mu
	all  []*os.File // guarded by mu
}

// path is that of a file with the text.
func (f *hintFiles) path(text string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.all) == 0 || f.text != text {
		file, err := sealed("mpiup-topology.xml", text)
		if err != nil {
			return "", err
		}
		f.text, f.all = text, append(f.all, file)
	}
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.all[len(f.all)-1].Fd()), nil
}

// close ends the files; a rank that has one open goes on reading.
func (f *hintFiles) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, file := range f.all {
		file.Close()
	}
	f.all, f.text = nil, ""
}

// sealed is a file in memory that holds the text and never anything else.
func sealed(name, text string) (*os.File, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_NOEXEC_SEAL)
	if err == unix.EINVAL { // before Linux 6.3
		fd, err = unix.MemfdCreate(name, flags)
	}
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err = f.WriteString(text); err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

// hwlocNames are the variables by which hwloc is told where to look, ours first.
var hwlocNames = []string{"HWLOC_XMLFILE", "HWLOC_THISSYSTEM", "HWLOC_THISSYSTEM_ALLOWED_RESOURCES",
	"HWLOC_FSROOT", "HWLOC_SYNTHETIC", "HWLOC_CPUID_PATH", "HWLOC_COMPONENTS"}

// hwlocVariables tell a rank of the file at path, unless a variable of hwlocNames is set already.
func hwlocVariables(path string, set func(name string) bool) []string {
	if path == "" || slices.ContainsFunc(hwlocNames, set) {
		return nil
	}
	return []string{"HWLOC_XMLFILE=" + path, "HWLOC_THISSYSTEM=1", "HWLOC_THISSYSTEM_ALLOWED_RESOURCES=1"}
}

// userLooksElsewhere: the command line's programs are told by the user where hwloc looks.
func (s *session) userLooksElsewhere() bool {
	return slices.ContainsFunc(hwlocNames, func(name string) bool { return s.userVariable(name) != "" })
}

// hwlocVariables are a rank's, by its program's own environment. hwloc 1 ends a rank's hwloc_topology_load
// with an error over our file (1.11.9, Ubuntu 18.04's, was tried). PMI and PMIx are asked by hwloc 2's users only.
func (p *proc) hwlocVariables(app *apiv1.App) []string {
	if p.step.oldHwloc[p.spec.App] {
		return nil
	}
	return hwlocVariables(p.step.hint.path, p.step.given(app))
}

// given says that the user or the container gives ranks of a program a variable.
func (st *step) given(app *apiv1.App) func(name string) bool {
	return func(name string) bool {
		is := func(kv string) bool { return strings.HasPrefix(kv, name+"=") }
		return slices.ContainsFunc(app.Env, is) || slices.ContainsFunc(st.s.agent.cfg.Env, is)
	}
}

func (p *proc) has(app *apiv1.App, name string) bool { return p.step.given(app)(name) }
