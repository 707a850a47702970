package mpilib

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits of looking at processes.
const (
	maxMap       = 4 << 20 // bytes of one memory map
	maxProcesses = 16      // of one rank
)

// Mapped is the MPI library that a process or one of its children has mapped, "" if there is none
// or /proc does not say in time. It reads the tree's /proc, in which a library is as the process has it,
// in a container of its own perhaps.
func (m *Memory) Mapped(pid int) string {
	return answered(func() (found string) {
		k := maps{newFiles(m.fsys, time.Now().Add(lookDeadline))}
		for _, p := range k.branch(pid) {
			if found = k.library(p); found != "" {
				break
			}
		}
		return found
	}, "")
}

// Children are the descendants of a process, each with how many looks have seen it.
type Children map[int]int

// MappedByNew is Mapped of descendants alone, for a look many times a second: it reads who they are, and the memory maps of those that are
// new or have become twice as old. before is what the last look returned.
func (m *Memory) MappedByNew(pid int, before Children) (library string, now Children) {
	type look struct {
		library string
		now     Children
	}
	got := answered(func() look {
		k, l := maps{newFiles(m.fsys, time.Now().Add(lookDeadline))}, look{now: Children{}}
		for _, child := range k.branch(pid)[1:] {
			n := before[child]
			if l.now[child] = n + 1; n&(n-1) == 0 && l.library == "" { // seen 0, 1, 2, 4, 8 ... times
				l.library = k.library(child)
			}
		}
		return l
	}, look{now: before})
	return got.library, got.now
}

// library is the MPI library that one process has mapped.
func (k maps) library(pid int) (found string) {
	for line := range k.lines(pid) {
		if l, ok := k.mpi(fmt.Sprintf("/proc/%d", pid), line); ok {
			return printable(l.String())
		}
	}
	return ""
}

// lines are those of a process's memory map.
func (k maps) lines(pid int) iter.Seq[string] {
	return strings.Lines(k.whole(fmt.Sprintf("/proc/%d/maps", pid), maxMap))
}

// branch is a process and its nearest descendants.
func (k maps) branch(pid int) []int {
	queue := []int{pid}
	for i := 0; i < len(queue) && len(queue) < maxProcesses; i++ {
		queue = append(queue, k.children(queue[i])...)
	}
	return queue[:min(len(queue), maxProcesses)]
}

func (k maps) children(pid int) (list []int) {
	for _, child := range strings.Fields(k.whole(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid), maxScript)) {
		if n, err := strconv.Atoi(child); err == nil {
			list = append(list, n)
		}
	}
	return list
}

// maps are the memory maps of processes.
type maps struct{ files *files }

// mpi is the MPI library that a line of a memory map names:
//
//	7f31c0a00000-7f31c0b2a000 r-xp 0005f000 fe:00 1311 /usr/lib/x86_64-linux-gnu/libmpi.so.40.30.4
func (k maps) mpi(proc, line string) (library, bool) {
	p := mappedFile(line)
	if p == "" || !mpiLibrary().MatchString(path.Base(p)) {
		return library{}, false
	}
	o, err := k.object(proc, p)
	if err != nil {
		l := byName(path.Base(p))
		l.path = p
		return l, true
	}
	defer o.close()
	l := recognise(o, o.Needed)
	l.path = p
	return l, true
}

// whole reads a file of /proc, whose size is not known.
func (k maps) whole(p string, most int64) string {
	f, err := k.files.fsys.Open(inTree(p))
	if err != nil || k.files.spent() {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, most)) // what can be read of a process that ends meanwhile
	k.files.bytes += int64(len(text))
	return string(text)
}

// frameworks are the training frameworks whose processes share a job, and the files by which a process shows that
// it has loaded one. The first comes before those that it stands on.
var frameworks = []struct {
	name   string
	mapped func(file string) bool
}{
	{"Horovod", func(f string) bool {
		return strings.Contains(f, "/horovod/") && strings.HasPrefix(path.Base(f), "mpi_lib")
	}},
	{"JAX", func(f string) bool { return strings.Contains(f, "/jaxlib/") }},
	{"TensorFlow", func(f string) bool { return strings.HasPrefix(path.Base(f), "libtensorflow_") }},
	{"torch", func(f string) bool {
		return strings.HasPrefix(path.Base(f), "libtorch_cpu.so") || strings.HasPrefix(path.Base(f), "libtorch.so")
	}},
}

// Framework is the training framework that a process or one of its children has loaded, "torch"; "" if there is none
// or /proc does not say in time. Of several it is the one that stands on the others.
func (m *Memory) Framework(pid int) string {
	return answered(func() string { return m.frameworkOf(pid) }, "")
}

func (m *Memory) frameworkOf(pid int) string {
	k := maps{newFiles(m.fsys, time.Now().Add(lookDeadline))}
	best, name := len(frameworks), ""
	for _, p := range k.branch(pid) {
		if best == 0 {
			break // nothing stands on it
		}
		for line := range k.lines(p) {
			at := strings.IndexByte(line, '/')
			if at < 0 {
				continue
			}
			for i, f := range frameworks[:best] {
				if f.mapped(strings.TrimSuffix(line[at:], "\n")) {
					best, name = i, f.name
					break
				}
			}
		}
	}
	return name
}

// meets are words of scripts whose processes share a job, by torch, what stands on it, JAX, TensorFlow or MPI.
var meets = []string{"distributed", "init_process_group", "Distributed", "DDP", "FSDP", "lightning", "accelerate", "deepspeed",
	"horovod", "Trainer", "Mirrored", "mpi4py", "torchrun", "megatron"}

// shards says that a program's processes each take a part of the work and do not meet. Its words or its script's text
// then name a variable with a rank in it, and nothing by which ranks meet.
func shards(argv []string, script []byte) bool {
	text := append([]byte(strings.Join(argv, " ")+" "), script...)
	return bytes.Contains(text, []byte("RANK")) && !slices.ContainsFunc(meets, func(word string) bool { return bytes.Contains(text, []byte(word)) })
}
