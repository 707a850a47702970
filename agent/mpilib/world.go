package mpilib

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/mpiup/mpiup/agent/mpilib/eval"
)

// A World is a process that has an MPI library, and how to see whether MPI_Init was called there. It is seen by the process's own memory
// (/proc/PID/mem), which the agent may read as the process's ancestor and of its user, and in which nothing runs and nothing is written:
//
//	map of the process ──▶ where its libmpi lies, or its own program with one in it
//	symbols of that file ─▶ ompi_mpi_state (Open MPI 3 and later), MPIR_world_model_state (MPICH 4 and later, where it is not hidden),
//	                        else PMPI_Initialized, which every MPI library exports, and which is evaluated (package eval)
//
// The zero value is none.
type World struct {
	Library string // "MPICH 4.0.2 (/usr/lib/libmpich.so.12)"
	PID     int
	mapped  string // the line of the process's map by which the library was found: where that changes, the process is another program
	at      uint64 // address of the variable or function
	by      *witness
}

// witness is a symbol that tells whether MPI_Init was called.
type witness struct {
	symbol      string
	least, most int32 // a variable's values, or a function's answers, by which MPI_Init has been called
	function    bool
}

// witnesses are asked in this order.
//   - ompi/runtime/mpiruntime.h (4.1.4, 5.0.8): OMPI_MPI_STATE_INIT_STARTED is 1, ..._INIT_COMPLETED 2, ..._FINALIZE_COMPLETED 5. Whoever is within
//     MPI_Init either comes out of it or does not end with 0
//   - src/include/mpir_process.h of MPICH 4.0.2 and 5.0.2: MPICH_MPI_STATE__INITIALIZED is 1, ..._POST_FINALIZED 2 of the world model
var witnesses = []witness{
	{symbol: "ompi_mpi_state", least: 1, most: 5},
	{symbol: "MPIR_world_model_state", least: 1, most: 2},
	{symbol: "PMPI_Initialized", least: 1, most: 1, function: true},
}

// World looks for an MPI library in a process and its nearest descendants; inside says that the program may have one in it. ok: there is one of
// which can be seen whether MPI_Init was called.
func (m *Memory) World(pid int, inside bool) (w World, ok bool) {
	w = answered(func() World {
		k := maps{newFiles(m.fsys, time.Now().Add(lookDeadline))}
		for _, p := range k.branch(pid) {
			if w := k.world(p, inside); w.by != nil {
				return w
			}
		}
		return World{}
	}, World{})
	return w, w.by != nil
}

// world is the MPI library of one process.
func (k maps) world(pid int, inside bool) World {
	proc := fmt.Sprintf("/proc/%d", pid)
	exe := ""
	if inside {
		exe = k.files.real(proc + "/exe")
	}
	for line := range k.lines(pid) {
		file := mappedFile(line)
		if file == "" {
			continue
		}
		if l, ok := k.mpi(proc, line); ok {
			return k.witnessed(World{Library: printable(l.String()), PID: pid, mapped: line}, proc, file)
		}
		if file != exe {
			continue
		}
		exe = "" // its first line, which bears the address of the file's beginning
		if w := k.within(World{PID: pid, mapped: line}, proc, file); w.by != nil {
			return w
		}
	}
	return World{}
}

// within is the MPI library in a program.
func (k maps) within(w World, proc, file string) World {
	o, err := k.object(proc, file)
	if err != nil {
		return World{}
	}
	l, ok := within(o)
	o.close()
	if !ok {
		return World{}
	}
	w.Library = printable(l.String())
	return k.witnessed(w, proc, file)
}

// mappedFile is the file of a line of a memory map; "" of none.
func mappedFile(line string) string {
	at := strings.IndexByte(line, '/')
	if at < 0 {
		return ""
	}
	return strings.TrimSuffix(strings.TrimSuffix(line[at:], "\n"), " (deleted)")
}

// object opens a file that a process has mapped, as this tree has it or else as the process's own does.
func (k maps) object(proc, file string) (*opened, error) {
	o, err := k.files.openObject(file)
	if err != nil {
		o, err = k.files.openObject(path.Join(proc, "root", file))
	}
	return o, err
}

// witnessed finds a witness in the file whose beginning the line of the map bears.
func (k maps) witnessed(w World, proc, file string) World {
	var begin, end, offset uint64
	if n, err := fmt.Sscanf(w.mapped, "%x-%x %s %x", &begin, &end, new(string), &offset); n != 4 || err != nil || offset != 0 {
		return World{}
	}
	o, err := k.object(proc, file)
	if err != nil {
		return World{}
	}
	defer o.close()
	bias, ok := o.bias(begin)
	if !ok {
		return World{}
	}
	for i := range witnesses {
		by := &witnesses[i]
		if by.function && o.Machine != elf.EM_X86_64 {
			continue
		}
		address, ok := o.Defines(by.symbol)
		if !ok {
			address, ok = o.local(by.symbol)
		}
		if ok {
			w.at, w.by = address+bias, by
			return w
		}
	}
	return World{}
}

// Initialized says that MPI_Init was called in a process, and that this is sure: it answers no where that cannot be seen. there: the process is
// still the one with that library.
func (m *Memory) Initialized(w World) (called, there bool) {
	if w.by == nil {
		return false, false
	}
	type answer struct{ called, there bool }
	a := answered(func() (a answer) {
		f, err := m.fsys.Open(inTree(fmt.Sprintf("/proc/%d/mem", w.PID)))
		if err != nil {
			return a
		}
		defer f.Close()
		memory, ok := f.(io.ReaderAt)
		if !ok {
			return a
		}
		if a.there = w.readable(memory); !a.there {
			return a
		}
		value, ok := w.value(memory)
		if !ok || value < w.by.least || value > w.by.most {
			return a
		}
		k := maps{newFiles(m.fsys, time.Now().Add(lookDeadline))}
		a.there = false
		for line := range k.lines(w.PID) { // an exec meanwhile has put something else there
			a.there = a.there || line == w.mapped
		}
		a.called = a.there
		return a
	}, answer{})
	return a.called, a.there
}

// readable says that something is still where the witness was.
func (w World) readable(memory io.ReaderAt) bool {
	_, err := memory.ReadAt(make([]byte, 4), int64(w.at))
	return err == nil
}

// value is what the witness says now.
func (w World) value(memory io.ReaderAt) (value int32, ok bool) {
	if w.by.function {
		return eval.Flag(memory, w.at)
	}
	b := make([]byte, 4)
	if _, err := memory.ReadAt(b, int64(w.at)); err != nil {
		return 0, false
	}
	return int32(binary.LittleEndian.Uint32(b)), true
}

// Environment is the variables that a process was started with, of which it may have none; nil where they cannot be read.
func (m *Memory) Environment(pid int) map[string]string {
	return answered(func() map[string]string {
		f, err := m.fsys.Open(inTree(fmt.Sprintf("/proc/%d/environ", pid)))
		if err != nil {
			return nil
		}
		defer f.Close()
		text, err := io.ReadAll(io.LimitReader(f, maxMap))
		if err != nil {
			return nil
		}
		return parseEnv(strings.Split(string(text), "\x00"))
	}, nil)
}

// maxAncestors is how many processes between a rank and the one with an MPI library are looked at.
const maxAncestors = 16

// OnlyWraps says that a process does nothing for itself but run another one, which is below it: shells and wrappers alone are between.
func (m *Memory) OnlyWraps(pid, descendant int) bool {
	return answered(func() bool {
		k := maps{newFiles(m.fsys, time.Now().Add(lookDeadline))}
		for range maxAncestors {
			if descendant == pid {
				return true
			}
			descendant = k.parent(descendant)
			if name := path.Base(k.files.real(fmt.Sprintf("/proc/%d/exe", descendant))); descendant <= 1 ||
				!wrappers[name] && !shellName().MatchString(name) && !users[name] {
				return false
			}
		}
		return false
	}, false)
}

// users are programs that run another one as another user, or with fewer variables, and wait for it.
var users = map[string]bool{"env": true, "su": true, "sudo": true, "runuser": true, "doas": true, "unshare": true, "nsenter": true, "chroot": true,
	"busybox": true, "setarch": true}

// parent is the parent of a process; 0 where it is not known.
func (k maps) parent(pid int) int {
	stat := k.whole(fmt.Sprintf("/proc/%d/stat", pid), maxScript)
	_, after, _ := strings.Cut(stat[max(strings.LastIndexByte(stat, ')'), 0):], " ") // the name before may be anything
	fields := strings.Fields(after)
	if len(fields) < 2 {
		return 0
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
	return parent
}
