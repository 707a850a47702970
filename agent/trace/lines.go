package trace

import (
	"bufio"
	"context"
	"io"
	"math"
	"path"
)

// lineAt reads a line table (.debug_line, DWARF 5 section 6.2) for the line that has an address:
//
//	unit: length, header, names of files, program ─▶ rows (address, file, line) ─▶ the row before the first one beyond the address
//
// Each byte of the table is read once; then once more those of the names in the one unit that has the row. 0: none has it.
func lineAt(ctx context.Context, table io.ReadSeeker, texts [2]io.ReadSeeker, at uint64) (file string, line int) {
	c := &cursor{in: bufio.NewReaderSize(table, 1<<16), left: math.MaxInt64}
	for !c.bad && ctx.Err() == nil {
		var u unit
		begin := c.read
		length := c.number(4)
		if u.wide = length == math.MaxUint32; u.wide {
			length = c.number(8)
		}
		if length > math.MaxInt64/2 {
			return "", 0
		}
		end := c.read + int64(length)
		c.left = int64(length)
		if row, ok := u.run(ctx, c, at); ok {
			if _, err := table.Seek(begin+u.names, io.SeekStart); err != nil {
				return "", 0
			}
			names := &cursor{in: bufio.NewReader(table), left: u.namesLen}
			if file = u.file(names, texts, row.file); file == "" || row.line > math.MaxInt32 {
				return "", 0
			}
			return file, int(row.line)
		}
		c.left, c.bad = math.MaxInt64, c.bad && c.ended
		c.skip(end - c.read)
	}
	return "", 0
}

// cursor reads numbers.
type cursor struct {
	in    *bufio.Reader
	read  int64
	left  int64 // bytes that may be read
	bad   bool  // more were asked for
	ended bool  // the stream is at its end
}

func (c *cursor) byte() byte {
	if c.left <= 0 || c.bad {
		c.bad = true
		return 0
	}
	b, err := c.in.ReadByte()
	if err != nil {
		c.bad, c.ended = true, true
		return 0
	}
	c.read++
	c.left--
	return b
}

func (c *cursor) number(bytes int) (n uint64) {
	for i := range bytes {
		n |= uint64(c.byte()) << (8 * i)
	}
	return n
}

// uleb and sleb are numbers of any length, of which 64 bits count (DWARF 5, 7.6).
func (c *cursor) uleb() (n uint64) {
	for shift := 0; ; shift += 7 {
		b := c.byte()
		if shift < 64 {
			n |= uint64(b&0x7f) << shift
		}
		if b < 0x80 {
			return n
		}
	}
}

func (c *cursor) sleb() (n int64) {
	for shift := 0; ; shift += 7 {
		b := c.byte()
		if shift < 64 {
			n |= int64(b&0x7f) << shift
		}
		if b < 0x80 {
			if shift += 7; b&0x40 != 0 && shift < 64 {
				n |= -1 << shift
			}
			return n
		}
	}
}

// text is one that ends with 0; what is longer than most is left out.
func (c *cursor) text() string {
	var b []byte
	for {
		x := c.byte()
		if x == 0 {
			return string(b)
		}
		if len(b) < maxSymbol {
			b = append(b, x)
		}
	}
}

func (c *cursor) skip(n int64) {
	if n < 0 || n > c.left {
		c.bad = true
		return
	}
	for n > 0 && !c.bad {
		some, err := c.in.Discard(int(min(n, 1<<20)))
		c.read, c.left, n = c.read+int64(some), c.left-int64(some), n-int64(some)
		if err != nil {
			c.bad, c.ended = true, true
		}
	}
}

// unit is the head of one unit's table.
type unit struct {
	wide            bool // offsets have 8 bytes
	version         uint64
	names, namesLen int64 // where the names of files stand, from the unit's begin
}

func (u *unit) offset() int { return map[bool]int{false: 4, true: 8}[u.wide] }

// row is a line of the program.
type row struct{ address, file, line uint64 }

// run runs a unit's program until a row has the address.
func (u *unit) run(ctx context.Context, c *cursor, at uint64) (found row, ok bool) {
	head := c.read - int64(map[bool]int{false: 4, true: 12}[u.wide])
	if u.version = c.number(2); u.version < 2 || u.version > 5 {
		return row{}, false
	}
	if u.version == 5 {
		c.number(2) // sizes of an address and of a segment's selector
	}
	program := int64(min(c.number(u.offset()), math.MaxInt64/2)) + c.read
	step := c.number(1) // of addresses, in bytes
	if u.version >= 4 {
		c.byte() // operations of an instruction: one, but on machines that are not read here
	}
	c.byte()
	base, span, first := int64(int8(c.byte())), uint64(c.byte()), c.byte()
	var args [256]byte
	for i := 1; i < int(first); i++ {
		args[i] = c.byte()
	}
	u.names, u.namesLen = c.read-head, program-c.read
	c.skip(program - c.read)
	if c.bad || span == 0 {
		return row{}, false
	}
	now, before, begun := row{file: 1, line: 1}, row{}, uint64(0)
	fresh := true        // no row of the sequence yet
	has := func() bool { // a row is done: does the one before have the address? A sequence at 0 is of a function that the linker left out
		if !fresh && begun != 0 && before.address <= at && at < now.address {
			return true
		}
		if fresh {
			begun, fresh = now.address, false
		}
		before = now
		return false
	}
	for n := 1; c.left > 0 && !c.bad; n++ {
		if n%glance == 0 && ctx.Err() != nil {
			break
		}
		op := c.byte()
		if op >= first {
			adjusted := uint64(op - first)
			now.address += step * (adjusted / span)
			now.line += uint64(base + int64(adjusted%span))
			if has() {
				return before, true
			}
			continue
		}
		switch op {
		case 0: // extended: its length, its code
			length := c.uleb()
			if length == 0 || length > uint64(c.left) {
				c.bad = true
				break
			}
			rest := int64(length) - 1
			switch c.byte() {
			case 1: // the sequence ends
				if has() {
					return before, true
				}
				now, fresh = row{file: 1, line: 1}, true
				c.skip(rest)
			case 2: // an address
				if rest > 8 {
					c.bad = true
					break
				}
				now.address = c.number(int(rest))
			default:
				c.skip(rest)
			}
		case 1: // a row
			if has() {
				return before, true
			}
		case 2:
			now.address += step * c.uleb()
		case 3:
			now.line += uint64(c.sleb())
		case 4:
			now.file = c.uleb()
		case 8:
			now.address += step * (uint64(255-first) / span)
		case 9:
			now.address += c.number(2)
		default: // with arguments that tell nothing here
			for range args[op] {
				c.uleb()
			}
		}
	}
	return row{}, false
}

// Forms of a name (DWARF 5, 7.5.6), and what a column is (6.2.4.1).
const (
	formBlock = 0x09
	formData1 = 0x0b
	formData2 = 0x05
	formData4 = 0x06
	formData8 = 0x07
	formMD5   = 0x1e
	formUdata = 0x0f
	formText  = 0x08
	formStr   = 0x0e
	formLine  = 0x1f
	pathCol   = 1
)

// file is the base name of the unit's file of a number.
func (u *unit) file(c *cursor, texts [2]io.ReadSeeker, number uint64) string {
	if u.version == 5 {
		u.table(c, texts, math.MaxUint64) // directories
		return base(u.table(c, texts, number))
	}
	for c.text() != "" { // directories
	}
	for n := uint64(1); !c.bad; n++ {
		name := c.text()
		if name == "" {
			break
		}
		if n == number {
			return base(name)
		}
		c.uleb()
		c.uleb()
		c.uleb()
	}
	return ""
}

// base is a path's last part; "" of none.
func base(name string) string {
	if name == "" {
		return ""
	}
	return path.Base(name)
}

// table reads one of DWARF 5's as far as one of its lines, and returns the path there.
func (u *unit) table(c *cursor, texts [2]io.ReadSeeker, number uint64) string {
	columns := make([][2]uint64, c.byte())
	for i := range columns {
		columns[i] = [2]uint64{c.uleb(), c.uleb()}
	}
	for n, count := uint64(0), c.uleb(); n < count && len(columns) > 0 && !c.bad; n++ {
		for _, col := range columns {
			wanted := n == number && col[0] == pathCol
			if name := u.column(c, texts, col[1], wanted); wanted {
				return name
			}
		}
	}
	return ""
}

// column reads one of a form; wanted: its text is the answer. An unknown form ends the look.
func (u *unit) column(c *cursor, texts [2]io.ReadSeeker, form uint64, wanted bool) string {
	switch form {
	case formText:
		if name := c.text(); wanted {
			return name
		}
	case formLine, formStr:
		at := c.number(u.offset())
		text := texts[map[uint64]int{formLine: 0, formStr: 1}[form]]
		if !wanted || text == nil || at > maxTable {
			return ""
		}
		if _, err := text.Seek(int64(at), io.SeekStart); err != nil {
			return ""
		}
		return (&cursor{in: bufio.NewReader(text), left: maxSymbol}).text()
	case formUdata:
		c.uleb()
	case formBlock:
		c.skip(int64(min(c.uleb(), math.MaxInt64)))
	case formData1:
		c.skip(1)
	case formData2:
		c.skip(2)
	case formData4:
		c.skip(4)
	case formData8:
		c.skip(8)
	case formMD5:
		c.skip(16)
	default:
		c.bad = true
	}
	return ""
}
