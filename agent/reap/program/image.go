package program

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"strconv"
)

// HeadBytes is how much of a program is read to say what it is. Linux itself looks at 256
// bytes for a script's interpreter (BINPRM_BUF_SIZE); an ELF file has its program headers right
// behind its own header in practice.
const HeadBytes = 4096

// image is what the first bytes of a program say about it.
type image struct {
	kind   imageKind
	arch   string // of an ELF file, as in GOARCH where there is one
	interp string // a script's interpreter, or an ELF file's PT_INTERP; "" when it has none
}

type imageKind int

const (
	imageUnknown imageKind = iota // neither; binfmt_misc may know it
	imageEmpty
	imageScript
	imageELF
)

// readImage reads a program's first bytes. It never fails: what makes no sense is unknown, or
// an ELF file without interpreter, and the kernel has the last word.
func readImage(head []byte) image {
	switch {
	case len(head) == 0:
		return image{kind: imageEmpty}
	case bytes.HasPrefix(head, []byte("#!")):
		return image{kind: imageScript, interp: scriptInterpreter(head[2:])}
	case bytes.HasPrefix(head, []byte("\x7fELF")):
		return readELF(head)
	}
	return image{}
}

// scriptInterpreter is the first word of a #! line (fs/binfmt_script.c). A carriage return is
// part of it, as it is for the kernel.
func scriptInterpreter(line []byte) string {
	if i := bytes.IndexByte(line, '\n'); i >= 0 {
		line = line[:i]
	}
	line = bytes.TrimLeft(line, " \t")
	if i := bytes.IndexAny(line, " \t\x00"); i >= 0 {
		line = line[:i]
	}
	return string(line)
}

// ELF numbers: elf(5) and the processor supplements.
const (
	elfClass32 = 1
	elfClass64 = 2
	elfLittle  = 1
	elfBig     = 2
	ptInterp   = 3
)

// machines maps e_machine to a GOARCH-like name.
var machines = map[uint16]string{
	3: "386", 8: "mips", 20: "ppc", 21: "ppc64", 22: "s390x", 40: "arm", 62: "amd64",
	183: "arm64", 243: "riscv64", 258: "loong64",
}

// readELF reads class, byte order, machine and PT_INTERP of an ELF header.
func readELF(head []byte) image {
	img := image{kind: imageELF}
	if len(head) < 20 {
		return img
	}
	var order binary.ByteOrder = binary.LittleEndian
	if head[5] == elfBig {
		order = binary.BigEndian
	}
	machine := order.Uint16(head[18:])
	img.arch = machines[machine]
	switch {
	case img.arch == "":
		img.arch = "machine " + strconv.Itoa(int(machine))
	case machine == 21 && head[5] == elfLittle:
		img.arch = "ppc64le"
	}
	switch {
	case head[4] == elfClass64 && len(head) >= 64:
		img.interp = elfInterp(head, order, order.Uint64(head[32:]), order.Uint16(head[54:]), order.Uint16(head[56:]), true)
	case head[4] == elfClass32 && len(head) >= 52:
		img.interp = elfInterp(head, order, uint64(order.Uint32(head[28:])), order.Uint16(head[42:]), order.Uint16(head[44:]), false)
	}
	return img
}

// elfInterp finds PT_INTERP among the program headers that lie within head.
func elfInterp(head []byte, order binary.ByteOrder, off uint64, size, count uint16, wide bool) string {
	need := uint64(32)
	if wide {
		need = 56
	}
	if uint64(size) < need {
		return ""
	}
	for i := uint64(0); i < uint64(count); i++ {
		at := off + i*uint64(size)
		if at < off || at+need < at || at+need > uint64(len(head)) {
			return ""
		}
		h := head[at:]
		if order.Uint32(h) != ptInterp {
			continue
		}
		start, n := uint64(order.Uint32(h[4:])), uint64(order.Uint32(h[16:]))
		if wide {
			start, n = order.Uint64(h[8:]), order.Uint64(h[32:])
		}
		if start > uint64(len(head)) || n > uint64(len(head))-start {
			return ""
		}
		return string(bytes.TrimRight(head[start:start+n], "\x00"))
	}
	return ""
}

// foreign says whether an ELF file of arch cannot run here. A 32-bit x86 file may run on amd64,
// and a 32-bit ARM file on arm64; the kernel decides those.
func foreign(arch string) bool {
	switch {
	case arch == "" || arch == runtime.GOARCH:
		return false
	case arch == "386" && runtime.GOARCH == "amd64", arch == "arm" && runtime.GOARCH == "arm64":
		return false
	}
	return true
}
