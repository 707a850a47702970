package mpilib

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"math/bits"
	"strings"
)

// An Object has of an ELF file what the dynamic loader reads, and its constants.
//
//	header ─▶ program headers ─▶ PT_DYNAMIC ─▶ needed, search paths, name     PT_INTERP ─▶ loader
//	                             DT_GNU_HASH ─▶ symbol ─▶ its text
//	          section headers ─▶ .rodata, else what is neither written nor executed ─▶ constants, piece by piece
//
// It goes by the program headers, as the loader does; section headers are only used to find .rodata, and a file may
// have none. Every number in a file may be a lie: what it makes an Object read is bounded.
//
// The file is handed in as a reader. An Object belongs to one goroutine.
//
// It reads 64-bit little-endian files only, and finds no library.

// Object is what is looked at of an ELF file.
type Object struct {
	r       io.ReaderAt
	Machine elf.Machine
	Interp  string // its loader
	Name    string // DT_SONAME
	Needed  []string
	RPath   []string // DT_RPATH: searched for what it loads too
	RunPath []string // DT_RUNPATH
	header  elf.Header64
	loads   []elf.Prog64
	hash    uint64 // address of DT_GNU_HASH; 0: none
	symbols uint64 // address of DT_SYMTAB
	strings uint64 // address of DT_STRTAB
}

var errNotELF = errors.New("not a 64-bit little-endian ELF file")

// Bounds of what an ELF file may state.
const (
	maxSegments = 128
	maxSections = 1024
	maxDynamic  = 4096 // entries
	maxNeeded   = 256
	MaxName     = 64 << 10 // bytes; search paths of Spack and Nix are long
	maxChain    = 4096     // symbols of one hash value
)

// Read reads what a program or library needs. The Object reads more of r when it is asked.
func Read(r io.ReaderAt) (*Object, error) {
	o := &Object{r: r}
	return o, o.read()
}

// at reads up to len(b) bytes; fewer only at the end of the file.
func (o *Object) at(b []byte, offset int64) (int, error) {
	n, err := o.r.ReadAt(b, offset)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

func (o *Object) full(b []byte, offset int64) error {
	n, err := o.at(b, offset)
	if err == nil && n < len(b) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

func (o *Object) read() error {
	b := make([]byte, 64)
	if err := o.full(b, 0); err != nil {
		return errNotELF
	}
	if string(b[:4]) != elf.ELFMAG || b[elf.EI_CLASS] != byte(elf.ELFCLASS64) || b[elf.EI_DATA] != byte(elf.ELFDATA2LSB) {
		return errNotELF
	}
	if _, err := binary.Decode(b, binary.LittleEndian, &o.header); err != nil {
		return err
	}
	h := &o.header
	o.Machine = elf.Machine(h.Machine)
	if t := elf.Type(h.Type); t != elf.ET_EXEC && t != elf.ET_DYN {
		return errNotELF
	}
	if h.Phentsize != 56 || h.Phnum > maxSegments {
		return errNotELF
	}
	b = make([]byte, int(h.Phnum)*56)
	if err := o.full(b, int64(h.Phoff)); err != nil {
		return err
	}
	var dynamic elf.Prog64
	for len(b) > 0 {
		var p elf.Prog64
		n, err := binary.Decode(b, binary.LittleEndian, &p)
		if err != nil {
			return err
		}
		b = b[n:]
		switch elf.ProgType(p.Type) {
		case elf.PT_LOAD:
			o.loads = append(o.loads, p)
		case elf.PT_DYNAMIC:
			dynamic = p
		case elf.PT_INTERP:
			o.Interp, _ = o.text(int64(p.Off))
		}
	}
	return o.readDynamic(dynamic)
}

// readDynamic reads the dynamic section; a static program has none.
func (o *Object) readDynamic(p elf.Prog64) error {
	size := min(p.Filesz, maxDynamic*16) &^ 15
	if size == 0 {
		return nil
	}
	b := make([]byte, size)
	if err := o.full(b, int64(p.Off)); err != nil {
		return err
	}
	names := map[elf.DynTag][]uint64{}
	for ; len(b) > 0; b = b[16:] {
		tag, value := elf.DynTag(binary.LittleEndian.Uint64(b)), binary.LittleEndian.Uint64(b[8:])
		switch tag {
		case elf.DT_NULL:
			b = b[:16]
		case elf.DT_NEEDED, elf.DT_RPATH, elf.DT_RUNPATH, elf.DT_SONAME:
			if len(names[tag]) < maxNeeded {
				names[tag] = append(names[tag], value)
			}
		case elf.DT_STRTAB:
			o.strings = value
		case elf.DT_SYMTAB:
			o.symbols = value
		case elf.DT_GNU_HASH:
			o.hash = value
		}
	}
	texts := func(tag elf.DynTag) (list []string) {
		for _, at := range names[tag] {
			if offset, ok := o.offset(o.strings + at); ok {
				if s, ok := o.text(offset); ok && s != "" {
					list = append(list, s)
				}
			}
		}
		return list
	}
	paths := func(tag elf.DynTag) []string {
		return strings.FieldsFunc(strings.Join(texts(tag), ":"), func(r rune) bool { return r == ':' })
	}
	o.Needed, o.RPath, o.RunPath = texts(elf.DT_NEEDED), paths(elf.DT_RPATH), paths(elf.DT_RUNPATH)
	if s := texts(elf.DT_SONAME); len(s) > 0 {
		o.Name = s[0]
	}
	return nil
}

// offset is where in the file an address is.
func (o *Object) offset(address uint64) (int64, bool) {
	for _, p := range o.loads {
		if address >= p.Vaddr && address-p.Vaddr < p.Filesz {
			return int64(p.Off + (address - p.Vaddr)), true
		}
	}
	return 0, false
}

// text is the string that ends with a zero byte, at an offset of the file.
func (o *Object) text(offset int64) (string, bool) {
	for size := 128; size <= MaxName; size *= 8 {
		b := make([]byte, size)
		n, err := o.at(b, offset)
		if err != nil {
			return "", false
		}
		if i := bytes.IndexByte(b[:n], 0); i >= 0 {
			return string(b[:i]), true
		}
	}
	return "", false
}

// Defines finds a symbol by the hash table that all linkers of today write (DT_GNU_HASH), and
// returns its address. One that is only used is not defined.
func (o *Object) Defines(name string) (address uint64, ok bool) {
	var head [16]byte // buckets, first symbol, bloom words, shift
	if !o.load(head[:], o.hash) || o.hash == 0 {
		return 0, false
	}
	buckets, first := uint64(binary.LittleEndian.Uint32(head[:])), uint64(binary.LittleEndian.Uint32(head[4:]))
	bloom := uint64(binary.LittleEndian.Uint32(head[8:]))
	if buckets == 0 {
		return 0, false
	}
	h := gnuHash(name)
	table := o.hash + 16 + bloom*8
	var word [4]byte
	if !o.load(word[:], table+uint64(h)%buckets*4) {
		return 0, false
	}
	i := uint64(binary.LittleEndian.Uint32(word[:]))
	if i < first {
		return 0, false
	}
	for range maxChain {
		if !o.load(word[:], table+buckets*4+(i-first)*4) {
			return 0, false
		}
		v := binary.LittleEndian.Uint32(word[:])
		if v|1 == h|1 {
			if address, ok := o.symbol(i, name); ok {
				return address, true
			}
		}
		if v&1 != 0 {
			return 0, false
		}
		i++
	}
	return 0, false
}

// symbol is the address of a symbol by its number, if that is its name.
func (o *Object) symbol(i uint64, name string) (address uint64, ok bool) {
	var b [24]byte
	if hi, _ := bits.Mul64(i, 24); hi != 0 || !o.load(b[:], o.symbols+i*24) {
		return 0, false
	}
	offset, ok := o.offset(o.strings + uint64(binary.LittleEndian.Uint32(b[:])))
	if !ok || binary.LittleEndian.Uint16(b[6:]) == uint16(elf.SHN_UNDEF) {
		return 0, false
	}
	s, ok := o.text(offset)
	return binary.LittleEndian.Uint64(b[8:]), ok && s == name
}

// Constant is the text that a symbol holds.
func (o *Object) Constant(symbol string) string {
	address, ok := o.Defines(symbol)
	if !ok {
		return ""
	}
	offset, ok := o.offset(address)
	if !ok {
		return ""
	}
	s, _ := o.text(offset)
	return s
}

func (o *Object) load(b []byte, address uint64) bool {
	offset, ok := o.offset(address)
	return ok && o.full(b, offset) == nil
}

// gnuHash is the hash of DT_GNU_HASH (Bernstein's).
func gnuHash(name string) uint32 {
	h := uint32(5381)
	for i := range len(name) {
		h = h*33 + uint32(name[i])
	}
	return h
}

// bias is what is to be added to the file's addresses where its beginning lies at an address of a process.
func (o *Object) bias(begin uint64) (uint64, bool) {
	const page = 1 << 12
	for _, p := range o.loads {
		if p.Off < page {
			return begin - (p.Vaddr - p.Off), true
		}
	}
	return 0, false
}

// maxSymbols bounds what is read of a symbol table and of its names, in bytes.
const maxSymbols = 16 << 20

// local finds a symbol by the table that a linker makes for debuggers (.symtab), which a file that was stripped has not.
func (o *Object) local(name string) (address uint64, ok bool) {
	h := &o.header
	if h.Shentsize != 64 || h.Shnum == 0 || h.Shnum > maxSections {
		return 0, false
	}
	b := make([]byte, int(h.Shnum)*64)
	if o.full(b, int64(h.Shoff)) != nil {
		return 0, false
	}
	sections := make([]elf.Section64, h.Shnum)
	if _, err := binary.Decode(b, binary.LittleEndian, sections); err != nil {
		return 0, false
	}
	for _, s := range sections {
		if elf.SectionType(s.Type) != elf.SHT_SYMTAB || s.Link >= uint32(len(sections)) || s.Size > maxSymbols || sections[s.Link].Size > maxSymbols {
			continue
		}
		names := make([]byte, sections[s.Link].Size)
		table := make([]byte, s.Size)
		if o.full(names, int64(sections[s.Link].Off)) != nil || o.full(table, int64(s.Off)) != nil {
			return 0, false
		}
		return find(table, names, name)
	}
	return 0, false
}

// find looks for a symbol that is defined in a table of symbols.
func find(table, names []byte, name string) (address uint64, ok bool) {
	want := []byte(name + "\x00")
	for ; len(table) >= 24; table = table[24:] {
		at := binary.LittleEndian.Uint32(table)
		if uint64(at) < uint64(len(names)) && bytes.HasPrefix(names[at:], want) && binary.LittleEndian.Uint16(table[6:]) != uint16(elf.SHN_UNDEF) {
			return binary.LittleEndian.Uint64(table[8:]), true
		}
	}
	return 0, false
}
