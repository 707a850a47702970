package trace

import (
	"bufio"
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/bounded"
)

// What a program's file says of an address: the function by its symbols, the line by its line table (DWARF 2 to 5). A rank may have written any
// file: sections are read as streams from end to end, once, and a text is taken only where it is the answer. debug/dwarf is for files that one
// trusts, as it says: it makes a copy of a text for each that refers to it, and looks through ranges again for each unit.

// Bounds of a file that is looked into.
const (
	maxSections = 256
	maxNames    = 64 << 10  // bytes of sections' names
	maxSegments = 256       // of a program
	maxTable    = 512 << 20 // bytes of a section
	glance      = 1 << 16   // steps between two looks at the time
)

// image is a program or a library. Only 64 bits and little-endian ones are read.
type image struct {
	file *os.File
	elf  *elf.File
	name string // base name
}

var errImage = errors.New("no program that is read here")

// openImage opens a regular file that is one; as root only one that everybody may read, since a rank may have named it. dir is where a name begins
// that is not absolute; nil: nowhere.
func openImage(dir *bounded.Dir, name string) (*image, error) {
	f, err := dir.Follow(name)
	if err != nil {
		return nil, err
	}
	if fi, err := f.Stat(); err == nil && fi.Mode().IsRegular() && (fi.Mode()&0o004 != 0 || os.Geteuid() != 0) && modest(f) {
		if e, err := elf.NewFile(f); err == nil {
			return &image{f, e, filepath.Base(name)}, nil
		}
	}
	f.Close()
	return nil, errImage
}

func (m *image) close() { m.file.Close() }

// modest says that a file's tables are as those of programs: debug/elf takes them as they are.
func modest(r io.ReaderAt) bool {
	var h [64]byte
	if _, err := r.ReadAt(h[:], 0); err != nil || !bytes.HasPrefix(h[:], []byte("\x7fELF\x02\x01")) {
		return false
	}
	le := binary.LittleEndian
	segments, size, sections, names := le.Uint16(h[56:]), le.Uint16(h[58:]), le.Uint16(h[60:]), le.Uint16(h[62:])
	if segments > maxSegments || size != 64 || sections == 0 || sections > maxSections || names >= sections {
		return false
	}
	var s [64]byte
	_, err := r.ReadAt(s[:], int64(le.Uint64(h[40:])+64*uint64(names)))
	return err == nil && le.Uint64(s[32:]) <= maxNames
}

// section is one as a stream; nil: there is none, or one of a size that is not read.
func (m *image) section(name string) io.ReadSeeker {
	s := m.elf.Section(name)
	if s == nil || s.Type == elf.SHT_NOBITS || s.Size > maxTable {
		return nil
	}
	return s.Open()
}

// Tables of symbols with their texts: of all functions, and of those that a program shows to its libraries, by which backtrace(3) names them.
var (
	allSymbols = [2]string{".symtab", ".strtab"}
	dynSymbols = [2]string{".dynsym", ".dynstr"}
)

// symbols calls f for each function, until that returns false.
func (m *image) symbols(ctx context.Context, table [2]string, f func(name func() string, value, size uint64) bool) {
	s, texts := m.section(table[0]), m.section(table[1])
	for _, name := range table { // from a packed one each name would be unpacked anew
		if s == nil || texts == nil || m.elf.Section(name).Flags&elf.SHF_COMPRESSED != 0 {
			return
		}
	}
	in := bufio.NewReaderSize(s, 1<<16)
	var sym [24]byte // Elf64_Sym
	for n := 1; ; n++ {
		if _, err := io.ReadFull(in, sym[:]); err != nil || n%glance == 0 && ctx.Err() != nil {
			return
		}
		le := binary.LittleEndian
		name := func() string {
			if _, err := texts.Seek(int64(le.Uint32(sym[:])), io.SeekStart); err != nil {
				return ""
			}
			text := make([]byte, maxSymbol)
			n, _ := io.ReadFull(texts, text) // it may be the last one
			text, _, _ = bytes.Cut(text[:n], []byte{0})
			return string(text)
		}
		if elf.ST_TYPE(sym[4]) == elf.STT_FUNC && !f(name, le.Uint64(sym[8:]), le.Uint64(sym[16:])) {
			return
		}
	}
}

// function is the one that has an address; "": none that is known.
func (m *image) function(ctx context.Context, at uint64) (found string) {
	for _, table := range [][2]string{allSymbols, dynSymbols} {
		m.symbols(ctx, table, func(name func() string, value, size uint64) bool {
			if at < value || at-value >= size {
				return true
			}
			found = brief(plainName(name()))
			return false
		})
		if found != "" {
			break
		}
	}
	return found
}

// address is where a function begins that a program shows to its libraries.
func (m *image) address(ctx context.Context, function string) (at uint64, ok bool) {
	n := 0
	m.symbols(ctx, dynSymbols, func(name func() string, value, _ uint64) bool {
		if n++; n%64 == 0 && ctx.Err() != nil { // each name is read from where it stands
			return false
		}
		if name() == function {
			at, ok = value, true
		}
		return !ok
	})
	return at, ok
}

// plainName is a C++ function's name without its types, "Solver::step" of "_ZN6Solver4stepEi" (Itanium C++ ABI, 5.1.3); any other name as it is.
func plainName(name string) string {
	rest, ok := strings.CutPrefix(name, "_Z")
	if !ok {
		return name
	}
	rest, nested := strings.CutPrefix(rest, "N")
	rest = strings.TrimLeft(rest, "LrVK")
	var parts []string
	for rest != "" && rest[0] >= '1' && rest[0] <= '9' && (nested || len(parts) == 0) {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		n, err := strconv.Atoi(rest[:digits])
		if err != nil || n > len(rest)-digits {
			return name
		}
		parts, rest = append(parts, rest[digits:digits+n]), rest[digits+n:]
	}
	if len(parts) == 0 {
		return name
	}
	return strings.Join(parts, "::")
}

// vaddr is the address of what stands at an offset of the file.
func (m *image) vaddr(offset uint64) (at uint64, ok bool) {
	for _, p := range m.elf.Progs {
		if p.Type == elf.PT_LOAD && offset >= p.Off && offset-p.Off < p.Filesz {
			return offset - p.Off + p.Vaddr, true
		}
	}
	return 0, false
}

// place is an address for people, "step (solver.c:41)"; without a line table "step (solver)"; "": nothing is known. lined: it has a line.
func (m *image) place(ctx context.Context, at uint64) (text string, lined bool) {
	function, where := m.function(ctx, at), m.name
	if table := m.section(".debug_line"); table != nil {
		texts := [2]io.ReadSeeker{m.section(".debug_line_str"), m.section(".debug_str")}
		if file, line := lineAt(ctx, table, texts, at); line > 0 {
			where, lined = file+":"+strconv.Itoa(line), true
		}
	}
	if function == "" {
		if function = "a function"; !lined {
			return "", false
		}
	}
	return function + " (" + path.Base(where) + ")", lined
}
