package trace

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"strconv"
)

// notes are what the kernel has written into a core file of a process (core(5)).
type notes struct {
	pid   int
	pc    uint64 // where it was
	files []mapping
}

// mapping is a part of a file in memory.
type mapping struct {
	begin, end, offset uint64
	name               string
}

// Bounds of a core's notes: threads and mapped files are many, texts short.
const (
	maxCoreNotes = 8 << 20
	maxMappings  = 1 << 16
)

// notesOf reads the beginning of a core file.
func notesOf(r io.ReaderAt) (n notes, ok bool) {
	var h [64]byte
	le := binary.LittleEndian
	if _, err := r.ReadAt(h[:], 0); err != nil || !bytes.HasPrefix(h[:], []byte("\x7fELF\x02\x01")) || le.Uint16(h[16:]) != 4 || le.Uint16(h[54:]) != 56 {
		return n, false
	}
	program, known := map[uint16]int{62: 112 + 16*8, 183: 112 + 32*8}[le.Uint16(h[18:])] // in NT_PRSTATUS: x86-64's rip, AArch64's pc
	var p [56]byte
	if _, err := r.ReadAt(p[:], int64(le.Uint64(h[32:]))); !known || err != nil || le.Uint32(p[:]) != 4 { // the kernel puts notes first
		return n, false
	}
	text, _ := io.ReadAll(io.NewSectionReader(r, int64(le.Uint64(p[8:])), int64(min(le.Uint64(p[32:]), maxCoreNotes)))) // it may have been cut
	for len(text) >= 12 {
		names, size, kind := uint64(le.Uint32(text)), uint64(le.Uint32(text[4:])), le.Uint32(text[8:])
		begin := 12 + (names+3)&^3
		if begin+size > uint64(len(text)) {
			break
		}
		body := text[begin : begin+size]
		switch {
		case kind == 1 && n.pc == 0 && len(body) >= program+8: // NT_PRSTATUS, of the thread that crashed first
			n.pc = le.Uint64(body[program:])
		case kind == 3 && n.pid == 0 && len(body) >= 28: // NT_PRPSINFO
			n.pid = int(int32(le.Uint32(body[24:])))
		case kind == 0x46494c45 && n.files == nil:
			n.files = mappings(body)
		}
		text = text[min(begin+(size+3)&^3, uint64(len(text))):]
	}
	return n, n.pid > 0
}

// mappings reads NT_FILE: their number, a page's size, then begin, end and page of each; then their names.
func mappings(body []byte) (list []mapping) {
	le := binary.LittleEndian
	if len(body) < 16 {
		return nil
	}
	count, page := le.Uint64(body), le.Uint64(body[8:])
	if body = body[16:]; count > maxMappings || uint64(len(body)) < 24*count {
		return nil
	}
	names := body[24*count:]
	for ; count > 0; count-- {
		m := mapping{begin: le.Uint64(body), end: le.Uint64(body[8:]), offset: le.Uint64(body[16:]) * page}
		name, rest, ok := bytes.Cut(names, []byte{0})
		if !ok {
			return list
		}
		m.name, body, names = string(name), body[24:], rest
		list = append(list, m)
	}
	return list
}

// crashed is where the process of a core was, as far as the files that it had mapped tell.
func (n notes) crashed(ctx context.Context) (frames []string) {
	for _, m := range n.files {
		if n.pc < m.begin || n.pc >= m.end {
			continue
		}
		file, err := openImage(nil, m.name)
		if err != nil {
			return nil
		}
		defer file.close()
		if at, ok := file.vaddr(n.pc - m.begin + m.offset); ok {
			if text, _ := file.place(ctx, at); text != "" {
				return []string{text}
			}
			return []string{file.name + "+0x" + strconv.FormatUint(at, 16)}
		}
	}
	return nil
}
