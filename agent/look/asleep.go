package look

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/agent/reap/proctree"
	"github.com/mpiup/mpiup/agent/trace"
)

// Where Yama forbids tools to trace (scope 1), this process may still read what its own descendants show below /proc: an ancestor may, and a tool that it
// starts is none (security/yama/yama_lsm.c). So it writes a core file of a thread, of some 100 kB, and eu-stack unwinds that:
//
//	/proc/PID/syscall  stack pointer, program counter ─┐
//	/proc/PID/maps     files and where they lie        ├─▶ core file in memory ─▶ eu-stack --core
//	/proc/PID/mem      the stack, each file's ELF head ─┘
//
// Nothing is traced. A thread that runs has no registers to read, so it is stopped as a shell's job is, and goes on at once.

// Bounds of a core file. A process says how many mappings it has and how deep its stack is.
const (
	maxMaps    = 4 << 20 // bytes of /proc/PID/maps
	maxModules = 2048
	maxStack   = 1 << 20
	haltTime   = 100 // looks, each a millisecond after the last
)

// registers says where the two registers that the kernel shows stand in elf_gregset_t (asm/elf.h). Without the link register of other machines the
// first frame has no caller.
var registers = map[string]struct {
	machine        elf.Machine
	count, pc, top int
}{"amd64": {elf.EM_X86_64, 27, 16, 19}}

// mapping is a line of /proc/PID/maps (proc_pid_maps(5)).
type mapping struct {
	begin, end, offset uint64
	perms, name        string
}

// asleep is the stack of the process's main thread by a core file; nil: there is none, and a note says why where it helps.
func (l *taking) asleep(ctx context.Context, pid int) []string {
	if _, ok := registers[runtime.GOARCH]; !ok {
		return nil
	}
	core, err := coreOf(l.proc, pid)
	if errors.Is(err, errRuns) {
		core, err = l.halted(pid)
	}
	if err != nil {
		return nil // it has ended, or another LSM forbids this too
	}
	fd, err := unix.MemfdCreate("core", unix.MFD_CLOEXEC)
	if err != nil {
		return nil
	}
	file := os.NewFile(uintptr(fd), "core")
	defer func() { _ = file.Close() }()
	if _, err := file.Write(core); err != nil {
		return nil
	}
	path := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd)
	frames, _ := l.run(ctx, tool{"eu-stack", []string{"-s", "-n", strconv.Itoa(trace.MaxFrames), "--core", path}, trace.Sourced}, nil)
	return frames
}

// halted makes the core file of a process that runs, while SIGSTOP holds it. One that was stopped before is no running one.
func (l *taking) halted(pid int) ([]byte, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.PidfdSendSignal(fd, unix.SIGSTOP, nil, 0); err != nil {
		return nil, err
	}
	defer func() { _ = unix.PidfdSendSignal(fd, unix.SIGCONT, nil, 0) }()
	for range haltTime {
		core, err := coreOf(l.proc, pid)
		if !errors.Is(err, errRuns) {
			return core, err
		}
		// A pidfd is readable when the process has ended; until then this waits a millisecond.
		if n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 1); n > 0 {
			break
		}
	}
	return nil, errRuns
}

// errRuns: the kernel shows no registers of a thread that runs.
var errRuns = errors.New("the thread runs")

// coreOf is a core file of the process's main thread, which sleeps or is stopped: with its stack and the heads of the ELF files in its memory.
func coreOf(proc proctree.Proc, pid int) ([]byte, error) {
	dir := filepath.Join(proc.Root, strconv.Itoa(pid))
	pc, top, err := position(dir)
	if err != nil {
		return nil, err
	}
	text, err := proctree.ReadSome(filepath.Join(dir, "maps"), maxMaps)
	if err != nil {
		return nil, err
	}
	auxv, err := proctree.ReadSome(filepath.Join(dir, "auxv"), 4096)
	if err != nil {
		return nil, err
	}
	mem, err := os.Open(filepath.Join(dir, "mem"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = mem.Close() }()
	core := encode(pid, pc, top, auxv, mappings(string(text)), mem)
	again, at, err := position(dir)
	if err == nil && (again != pc || at != top) {
		err = errRuns // what was read is of several moments
	}
	return core, err
}

// position is where a thread's program counter and stack pointer stand: the last two words of /proc/PID/syscall (proc_pid_syscall(5)).
func position(dir string) (pc, top uint64, err error) {
	text, err := proctree.ReadSome(filepath.Join(dir, "syscall"), 512)
	if err != nil {
		return 0, 0, err
	}
	words := strings.Fields(string(text))
	if len(words) < 3 {
		return 0, 0, errRuns
	}
	if top, err = strconv.ParseUint(words[len(words)-2], 0, 64); err != nil {
		return 0, 0, err
	}
	pc, err = strconv.ParseUint(words[len(words)-1], 0, 64)
	return pc, top, err
}

// mappings are the lines that say what they should.
func mappings(text string) (all []mapping) {
	for line := range strings.Lines(text) {
		var m mapping
		var device, inode string
		if n, _ := fmt.Sscanf(line, "%x-%x %s %x %s %s", &m.begin, &m.end, &m.perms, &m.offset, &device, &inode); n != 6 || m.begin >= m.end {
			continue
		}
		if _, name, ok := strings.Cut(line, " "+inode+" "); ok {
			m.name = strings.TrimSpace(name)
		}
		all = append(all, m)
	}
	return all
}

// part is what a core file has of a process's memory: its first bytes, from begin.
type part struct {
	mapping
	data []byte
}

// parts are the mappings that eu-stack needs: the stack below top, the vDSO, and those of files whose code is mapped, each with the file's head.
func parts(all []mapping, top uint64, mem io.ReaderAt) (found []part) {
	page := uint64(os.Getpagesize())
	read := func(m mapping, size uint64) part {
		b := make([]byte, min(size, m.end-m.begin))
		n, _ := mem.ReadAt(b, int64(m.begin))
		return part{m, b[:n]}
	}
	code := map[string]bool{}
	for _, m := range all {
		if strings.HasPrefix(m.name, "/") && strings.Contains(m.perms, "x") && len(code) < maxModules {
			code[m.name] = true
		}
	}
	stack, vdso := false, false // the kernel names each once
	for _, m := range all {
		switch {
		case m.begin <= top && top < m.end && !stack:
			stack, m.begin = true, max(m.begin, top&^(page-1))
			found = append(found, read(m, maxStack))
		case m.name == "[vdso]" && !vdso:
			vdso = true
			found = append(found, read(m, 4*page))
		case !code[m.name] || len(found) >= 4*maxModules:
		case m.offset == 0 && strings.HasPrefix(m.perms, "r"):
			found = append(found, read(m, page))
		default:
			found = append(found, part{mapping: m})
		}
	}
	return found
}

// encode writes the core file: ELF's head, a table of segments, notes, memory (elf(5), linux/elfcore.h).
func encode(pid int, pc, top uint64, auxv []byte, all []mapping, mem io.ReaderAt) []byte {
	const headSize, entrySize = 64, 56
	of := registers[runtime.GOARCH]
	have := parts(all, top, mem)

	var notes bytes.Buffer
	process := make([]byte, 136) // elf_prpsinfo: pr_pid is at 24
	binary.NativeEndian.PutUint32(process[24:], uint32(pid))
	note(&notes, elf.NT_PRPSINFO, process)
	thread := make([]byte, 112+8*of.count+8) // elf_prstatus: pr_pid is at 32, pr_reg at 112
	binary.NativeEndian.PutUint32(thread[32:], uint32(pid))
	binary.NativeEndian.PutUint64(thread[112+8*of.pc:], pc)
	binary.NativeEndian.PutUint64(thread[112+8*of.top:], top)
	note(&notes, elf.NT_PRSTATUS, thread)
	note(&notes, ntAuxv, auxv)
	note(&notes, ntFile, fileNote(have))

	segments := []elf.Prog64{{Type: uint32(elf.PT_NOTE), Filesz: uint64(notes.Len()), Memsz: uint64(notes.Len()), Align: 4}}
	offset := uint64(headSize + entrySize*(1+len(have)))
	segments[0].Off = offset
	offset += uint64(notes.Len())
	for _, p := range have {
		flags := elf.ProgFlag(0)
		for i, f := range []elf.ProgFlag{elf.PF_R, elf.PF_W, elf.PF_X} {
			if strings.IndexByte(p.perms, "rwx"[i]) >= 0 {
				flags |= f
			}
		}
		segments = append(segments, elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(flags), Off: offset, Vaddr: p.begin,
			Filesz: uint64(len(p.data)), Memsz: p.end - p.begin, Align: 1})
		offset += uint64(len(p.data))
	}
	head := elf.Header64{Type: uint16(elf.ET_CORE), Machine: uint16(of.machine), Version: uint32(elf.EV_CURRENT), Phoff: headSize,
		Ehsize: headSize, Phentsize: entrySize, Phnum: uint16(len(segments))}
	copy(head.Ident[:], elf.ELFMAG+string([]byte{byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)}))

	var out bytes.Buffer
	_ = binary.Write(&out, binary.LittleEndian, head) // to memory: it does not fail
	_ = binary.Write(&out, binary.LittleEndian, segments)
	_, _ = notes.WriteTo(&out)
	for _, p := range have {
		_, _ = out.Write(p.data)
	}
	return out.Bytes()
}

// Notes that debug/elf has no names for (linux/elf.h).
const (
	ntAuxv elf.NType = 6
	ntFile elf.NType = 0x46494c45
)

// note adds a note of the owner CORE, padded to four bytes.
func note(out *bytes.Buffer, kind elf.NType, text []byte) {
	for _, n := range []int{5, len(text), int(kind)} {
		_ = binary.Write(out, binary.LittleEndian, uint32(n))
	}
	_, _ = out.WriteString("CORE\x00\x00\x00\x00")
	_, _ = out.Write(text)
	_, _ = out.Write(make([]byte, -len(text)&3))
}

// fileNote is NT_FILE: how many, the unit of offsets, begin, end and offset of each, then the names (fs/binfmt_elf.c, fill_files_note).
func fileNote(have []part) []byte {
	files := slices.DeleteFunc(slices.Clone(have), func(p part) bool { return !strings.HasPrefix(p.name, "/") })
	words, names := []uint64{uint64(len(files)), 1}, ""
	for _, f := range files {
		words = append(words, f.begin, f.end, f.offset)
		names += f.name + "\x00"
	}
	var out bytes.Buffer
	_ = binary.Write(&out, binary.LittleEndian, words)
	_, _ = out.WriteString(names)
	return out.Bytes()
}
