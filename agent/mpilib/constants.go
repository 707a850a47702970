package mpilib

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
)

// Constants reads an object's constants, piece by piece with some Overlap, until see returns
// false: section .rodata, else the segments that are neither written nor executed.
func (o *Object) Constants(see func(piece []byte) bool) {
	if offset, size, ok := o.rodata(); ok {
		o.pieces(offset, size, see)
		return
	}
	for _, p := range o.loads {
		if elf.ProgFlag(p.Flags)&(elf.PF_W|elf.PF_X) == 0 && p.Filesz > 0 {
			if !o.pieces(int64(p.Off), int64(min(p.Filesz, maxStrings)), see) {
				return
			}
		}
	}
}

const (
	pieceSize = 256 << 10
	// Overlap is how much of a piece comes again with the next one, in bytes: more than any text that is looked for.
	Overlap = 256
)

func (o *Object) pieces(offset, size int64, see func([]byte) bool) bool {
	size = min(size, maxStrings)
	b := make([]byte, min(pieceSize, size))
	for at := int64(0); at < size; {
		n, err := o.at(b[:min(int64(len(b)), size-at)], offset+at)
		if err != nil || n == 0 {
			return false
		}
		if !see(b[:n]) {
			return false
		}
		if at+int64(n) >= size || n <= Overlap {
			break
		}
		at += int64(n) - Overlap
	}
	return true
}

// maxStrings bounds the constants that are read, in bytes.
const maxStrings = 4 << 20

// rodata is where section .rodata is in the file. Stripped of its section headers, a file has none;
// Go's programs, which hold the texts of packages they do not use, count as empty.
func (o *Object) rodata() (offset, size int64, ok bool) {
	h := &o.header
	if h.Shentsize != 64 || h.Shnum == 0 || h.Shnum > maxSections || h.Shstrndx >= h.Shnum {
		return 0, 0, false
	}
	b := make([]byte, int(h.Shnum)*64)
	if o.full(b, int64(h.Shoff)) != nil {
		return 0, 0, false
	}
	section := func(i int) (s elf.Section64) {
		_, _ = binary.Decode(b[i*64:], binary.LittleEndian, &s) // there are 64 bytes
		return s
	}
	names := section(int(h.Shstrndx))
	table := make([]byte, min(names.Size, 64<<10))
	if o.full(table, int64(names.Off)) != nil {
		return 0, 0, false
	}
	for i := range int(h.Shnum) {
		s := section(i)
		if uint64(s.Name) >= uint64(len(table)) {
			continue
		}
		name, _, _ := bytes.Cut(table[s.Name:], []byte{0})
		switch string(name) {
		case ".rodata":
			offset, size, ok = int64(s.Off), int64(min(s.Size, maxStrings)), true
		case ".go.buildinfo":
			return 0, 0, true
		}
	}
	return offset, size, ok
}
