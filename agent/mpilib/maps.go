package mpilib

import (
	"fmt"
	"path"
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
	return answered(func() string { return m.mappedBy(pid) }, "")
}

func (m *Memory) mappedBy(pid int) string {
	k := &look{files: newFiles(m.fsys, time.Now().Add(lookDeadline))}
	queue := []int{pid}
	for i := 0; i < len(queue) && i < maxProcesses; i++ {
		proc := fmt.Sprintf("/proc/%d", queue[i])
		for line := range strings.Lines(k.whole(proc+"/maps", maxMap)) {
			if l, ok := k.mapped(proc, line); ok {
				return printable(l.String())
			}
		}
		for _, child := range strings.Fields(k.whole(fmt.Sprintf("%s/task/%d/children", proc, queue[i]), maxScript)) {
			if n, err := strconv.Atoi(child); err == nil {
				queue = append(queue, n)
			}
		}
	}
	return ""
}

// mapped is the MPI library that a line of a memory map names:
//
//	7f31c0a00000-7f31c0b2a000 r-xp 0005f000 fe:00 1311 /usr/lib/x86_64-linux-gnu/libmpi.so.40.30.4
func (k *look) mapped(proc, line string) (library, bool) {
	at := strings.IndexByte(line, '/')
	if at < 0 {
		return library{}, false
	}
	p := strings.TrimSuffix(strings.TrimSuffix(line[at:], "\n"), " (deleted)")
	if !mpiLibrary().MatchString(path.Base(p)) {
		return library{}, false
	}
	o, err := k.files.openObject(p)
	if err != nil {
		if o, err = k.files.openObject(path.Join(proc, "root", p)); err != nil {
			l := byName(path.Base(p))
			l.path = p
			return l, true
		}
	}
	defer o.close()
	l := recognise(o, o.Needed)
	l.path = p
	return l, true
}

// whole reads a file of /proc, whose size is not known.
func (k *look) whole(p string, most int) string {
	f, err := k.files.fsys.Open(inTree(p))
	if err != nil || k.files.spent() {
		return ""
	}
	defer f.Close()
	var text []byte
	b := make([]byte, 16<<10)
	for len(text) < most {
		n, err := f.Read(b)
		text = append(text, b[:n]...)
		if k.files.bytes += int64(n); err != nil || n == 0 {
			break
		}
	}
	return string(text)
}
