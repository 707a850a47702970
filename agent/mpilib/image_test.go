package mpilib

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"slices"
	"strings"
)

// image describes an ELF file as small as looks can take it. Every address is an offset.
type image struct {
	machine       elf.Machine // 0: x86-64
	soname        string
	needed        []string
	rpath         string
	runpath       string
	symbols       []string          // defined
	texts         map[string]string // defined, with the text they hold
	rodata        string
	without       bool // section headers
	interp        string
	golang        bool // built by Go
	notExecutable bool
}

func put(b *bytes.Buffer, v any) {
	if err := binary.Write(b, binary.LittleEndian, v); err != nil {
		panic(err)
	}
}

// strtab gathers zero-terminated texts.
type strtab struct{ bytes.Buffer }

func (s *strtab) add(text string) uint64 {
	at := s.Len()
	s.WriteString(text + "\x00")
	return uint64(at)
}

// bytes writes the file: header, program headers, strings, symbols, hash, dynamic section,
// constants, sections.
func (m image) bytes() []byte {
	const programs, first = 3, 64 + 3*56
	var text strtab
	text.add("")
	var dynamic [][2]uint64
	note := func(tag elf.DynTag, s string) {
		if s != "" {
			dynamic = append(dynamic, [2]uint64{uint64(tag), text.add(s)})
		}
	}
	for _, n := range m.needed {
		note(elf.DT_NEEDED, n)
	}
	note(elf.DT_SONAME, m.soname)
	note(elf.DT_RPATH, m.rpath)
	note(elf.DT_RUNPATH, m.runpath)
	interp := first + text.add(m.interp)

	var constants strtab
	constants.add("")
	constants.WriteString(m.rodata + "\x00")
	names := slices.Clone(m.symbols)
	held := map[string]uint64{}
	for name, value := range m.texts {
		names = append(names, name)
		held[name] = constants.add(value)
	}
	slices.Sort(names)
	nameAt := make([]uint64, len(names))
	for i, n := range names {
		nameAt[i] = text.add(n)
	}
	for text.Len()%8 != 0 {
		text.WriteByte(0)
	}
	symbols := uint64(first + text.Len())
	hash := symbols + uint64(len(names)+1)*24
	dyn := hash + 16 + 8 + 4 + uint64(len(names))*4
	dyn = (dyn + 7) &^ 7
	dynamic = append(dynamic, [2]uint64{uint64(elf.DT_STRTAB), first}, [2]uint64{uint64(elf.DT_SYMTAB), symbols})
	if len(names) > 0 {
		dynamic = append(dynamic, [2]uint64{uint64(elf.DT_GNU_HASH), hash})
	}
	dynamic = append(dynamic, [2]uint64{})
	rodata := dyn + uint64(len(dynamic))*16
	shstr := rodata + uint64(constants.Len())
	third := ".data"
	if m.golang {
		third = ".go.buildinfo"
	}
	sections := "\x00.rodata\x00.shstrtab\x00" + third + "\x00"
	table := shstr + uint64(len(sections))

	machine := m.machine
	if machine == 0 {
		machine = elf.EM_X86_64
	}
	h := elf.Header64{Type: uint16(elf.ET_DYN), Machine: uint16(machine), Version: 1, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: programs}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB)
	if !m.without {
		h.Shoff, h.Shentsize, h.Shnum, h.Shstrndx = table, 64, 4, 2
	}
	var b bytes.Buffer
	put(&b, h)
	put(&b, elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R), Filesz: table, Memsz: table})
	put(&b, elf.Prog64{Type: uint32(elf.PT_DYNAMIC), Off: dyn, Vaddr: dyn, Filesz: uint64(len(dynamic)) * 16})
	put(&b, elf.Prog64{Type: uint32(elf.PT_INTERP), Off: interp, Vaddr: interp, Filesz: uint64(len(m.interp) + 1)})
	b.Write(text.Bytes())
	put(&b, elf.Sym64{})
	for i, n := range names {
		put(&b, elf.Sym64{Name: uint32(nameAt[i]), Shndx: 1, Value: rodata + held[n]})
	}
	put(&b, []uint32{1, 1, 1, 0}) // one bucket, the first symbol is 1, one word of filter
	put(&b, ^uint64(0))
	put(&b, uint32(1))
	for i, n := range names {
		v := hashOf(n) &^ 1
		if i == len(names)-1 {
			v |= 1
		}
		put(&b, v)
	}
	for uint64(b.Len()) < dyn {
		b.WriteByte(0)
	}
	put(&b, dynamic)
	b.Write(constants.Bytes())
	b.WriteString(sections)
	name := func(s string) uint32 { return uint32(strings.Index(sections, s)) }
	put(&b, elf.Section64{})
	put(&b, elf.Section64{Name: name(".rodata"), Off: rodata, Size: uint64(constants.Len())})
	put(&b, elf.Section64{Name: name(".shstrtab"), Off: shstr, Size: uint64(len(sections))})
	put(&b, elf.Section64{Name: name(third)})
	return b.Bytes()
}

// ldCacheOf writes a cache of libraries by path.
func ldCacheOf(paths ...string) []byte {
	var b, text bytes.Buffer
	base := uint32(ldCacheHeader + len(paths)*ldCacheEntry)
	b.WriteString(ldCacheMagic)
	put(&b, uint32(len(paths)))
	b.Write(make([]byte, ldCacheHeader-b.Len()))
	for _, p := range paths {
		name := base + uint32(text.Len()+strings.LastIndexByte(p, '/')+1)
		put(&b, []uint32{0x0303, name, base + uint32(text.Len()), 0, 0, 0})
		text.WriteString(p + "\x00")
	}
	b.Write(text.Bytes())
	return b.Bytes()
}

// hashOf is the hash of DT_GNU_HASH (Bernstein's).
func hashOf(name string) (h uint32) {
	h = 5381
	for i := range len(name) {
		h = h*33 + uint32(name[i])
	}
	return h
}
