package eval

import (
	"encoding/binary"
	"errors"
	"io"

	"golang.org/x/arch/x86/x86asm"
)

// Bounds of one evaluation.
const (
	maxSteps  = 256 // instructions
	stackSize = 4096
)

// Addresses that no process has: they are not canonical, so that a read of the process's memory cannot mean them.
const (
	stackBase  = uint64(0xf000_0000_0000_0000)
	flagAt     = stackBase + stackSize - 64 // where the function's argument points
	stackTop   = flagAt - 64
	returnAddr = uint64(0xf100_0000_0000_0000)
)

// errUnknown ends an evaluation that comes to something it does not know.
var errUnknown = errors.New("not a function that can be evaluated")

// Flag is what the function at an address, int f(int *flag), stores at flag; ok: it returns 0, and that is known.
func Flag(memory io.ReaderAt, function uint64) (flag int32, ok bool) {
	m := &machine{memory: memory, pc: function}
	m.registers[x86asm.RDI-x86asm.RAX] = flagAt
	m.registers[rsp] = stackTop
	const unset = 0x5a5a5a5a
	if m.store(flagAt, 4, unset) != nil || m.push(returnAddr) != nil {
		return 0, false
	}

	for range maxSteps {
		if m.pc == returnAddr {
			stored, err := m.load(flagAt, 4)
			returned := uint32(m.registers[0])
			return int32(stored), err == nil && stored != unset && returned == 0
		}
		if m.step() != nil {
			return 0, false
		}
	}
	return 0, false
}

// machine is a processor as far as such functions need one.
type machine struct {
	memory    io.ReaderAt
	registers [16]uint64 // RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8 ... R15
	pc        uint64
	stack     [stackSize]byte
	flags     flags
}

const rsp = x86asm.RSP - x86asm.RAX

// flags are what the last comparison has set.
type flags struct {
	known                       bool
	zero, sign, carry, overflow bool
}

// step does one instruction.
func (m *machine) step() error {
	code := make([]byte, 16)
	n, err := m.memory.ReadAt(code, int64(m.pc))
	if n == 0 {
		return err
	}
	code = code[:n]
	if n >= 4 && string(code[:4]) == "\xf3\x0f\x1e\xfa" { // endbr64, a landing place for jumps
		m.pc += 4
		return nil
	}
	in, err := x86asm.Decode(code, 64)
	if err != nil {
		return err
	}
	for _, p := range in.Prefix {
		if p&0xff == x86asm.PrefixLOCK {
			return errUnknown
		}
	}
	m.pc += uint64(in.Len)
	return m.do(in)
}

// do is what an instruction does; the program counter stands behind it.
func (m *machine) do(in x86asm.Inst) error {
	switch in.Op {
	case x86asm.NOP:
		return nil
	case x86asm.MOV, x86asm.MOVZX, x86asm.MOVSX, x86asm.MOVSXD:
		return m.move(in)
	case x86asm.LEA:
		mem, ok := in.Args[1].(x86asm.Mem)
		if !ok {
			return errUnknown
		}
		at, err := m.address(mem)
		if err != nil {
			return err
		}
		return m.write(in, 0, at)
	case x86asm.PUSH:
		v, err := m.read(in, 0)
		if err != nil || size(in, 0) != 8 && !isImm(in.Args[0]) {
			return errUnknown
		}
		return m.push(v)
	case x86asm.POP:
		v, err := m.pop()
		if err != nil || size(in, 0) != 8 {
			return errUnknown
		}
		return m.write(in, 0, v)
	case x86asm.CALL, x86asm.JMP:
		to, err := m.target(in)
		if err != nil {
			return err
		}
		if in.Op == x86asm.CALL {
			if err := m.push(m.pc); err != nil {
				return err
			}
		}
		m.pc = to
		return nil
	case x86asm.RET:
		to, err := m.pop()
		if err != nil || in.Args[0] != nil {
			return errUnknown
		}
		m.pc = to
		return nil
	case x86asm.ADD, x86asm.SUB, x86asm.AND, x86asm.OR, x86asm.XOR, x86asm.CMP, x86asm.TEST:
		return m.compute(in)
	}
	return m.conditional(in)
}

// move is MOV and its kin.
func (m *machine) move(in x86asm.Inst) error {
	v, err := m.read(in, 1)
	if err != nil {
		return err
	}
	if in.Op == x86asm.MOVSX || in.Op == x86asm.MOVSXD {
		v = extend(v, size(in, 1))
	}
	return m.write(in, 0, v)
}

// target is where a call or jump goes: beside itself, or through a table of the dynamic linker.
func (m *machine) target(in x86asm.Inst) (uint64, error) {
	if rel, ok := in.Args[0].(x86asm.Rel); ok {
		return m.pc + uint64(int64(rel)), nil
	}
	return m.read(in, 0)
}

// compute is arithmetic, with what it says of the result.
func (m *machine) compute(in x86asm.Inst) error {
	n := size(in, 0)
	a, err := m.read(in, 0)
	if err != nil {
		return err
	}
	b, err := m.read(in, 1)
	if err != nil || n == 0 {
		return errUnknown
	}
	if isImm(in.Args[1]) {
		b = cut(b, n)
	}
	var v uint64
	f := flags{known: true}
	top := uint64(1) << (8*n - 1)
	switch in.Op {
	case x86asm.ADD:
		v = cut(a+b, n)
		f.carry = v < a
		f.overflow = ^(a^b)&(a^v)&top != 0
	case x86asm.SUB, x86asm.CMP:
		v = cut(a-b, n)
		f.carry = a < b
		f.overflow = (a^b)&(a^v)&top != 0
	case x86asm.AND, x86asm.TEST:
		v = a & b
	case x86asm.OR:
		v = a | b
	case x86asm.XOR:
		v = a ^ b
	}
	f.zero, f.sign = v == 0, v&top != 0
	m.flags = f
	if in.Op == x86asm.CMP || in.Op == x86asm.TEST {
		return nil
	}
	return m.write(in, 0, v)
}

// condition is one that the last comparison decides.
type condition func(f flags) bool

func isZero(f flags) bool       { return f.zero }
func isBelow(f flags) bool      { return f.carry }
func isAtMost(f flags) bool     { return f.carry || f.zero }
func isLess(f flags) bool       { return f.sign != f.overflow }
func isNoMore(f flags) bool     { return f.zero || f.sign != f.overflow }
func isSigned(f flags) bool     { return f.sign }
func not(c condition) condition { return func(f flags) bool { return !c(f) } }

var (
	jumps = map[x86asm.Op]condition{x86asm.JE: isZero, x86asm.JNE: not(isZero), x86asm.JB: isBelow, x86asm.JAE: not(isBelow), x86asm.JBE: isAtMost,
		x86asm.JA: not(isAtMost), x86asm.JL: isLess, x86asm.JGE: not(isLess), x86asm.JLE: isNoMore, x86asm.JG: not(isNoMore), x86asm.JS: isSigned, x86asm.JNS: not(isSigned)}
	sets = map[x86asm.Op]condition{x86asm.SETE: isZero, x86asm.SETNE: not(isZero), x86asm.SETB: isBelow, x86asm.SETAE: not(isBelow), x86asm.SETBE: isAtMost,
		x86asm.SETA: not(isAtMost), x86asm.SETL: isLess, x86asm.SETGE: not(isLess), x86asm.SETLE: isNoMore, x86asm.SETG: not(isNoMore), x86asm.SETS: isSigned, x86asm.SETNS: not(isSigned)}
	moves = map[x86asm.Op]condition{x86asm.CMOVE: isZero, x86asm.CMOVNE: not(isZero), x86asm.CMOVB: isBelow, x86asm.CMOVAE: not(isBelow), x86asm.CMOVBE: isAtMost,
		x86asm.CMOVA: not(isAtMost), x86asm.CMOVL: isLess, x86asm.CMOVGE: not(isLess), x86asm.CMOVLE: isNoMore, x86asm.CMOVG: not(isNoMore), x86asm.CMOVS: isSigned, x86asm.CMOVNS: not(isSigned)}
)

// conditional does what depends on the last comparison. Whatever else an instruction may be is not known.
func (m *machine) conditional(in x86asm.Inst) error {
	if !m.flags.known {
		return errUnknown
	}
	if c, ok := jumps[in.Op]; ok {
		to, err := m.target(in)
		if err == nil && c(m.flags) {
			m.pc = to
		}
		return err
	}
	if c, ok := sets[in.Op]; ok {
		v := uint64(0)
		if c(m.flags) {
			v = 1
		}
		return m.write(in, 0, v)
	}
	if c, ok := moves[in.Op]; ok {
		from := 0 // the register keeps its value, whose upper half goes all the same
		if c(m.flags) {
			from = 1
		}
		v, err := m.read(in, from)
		if err != nil {
			return err
		}
		return m.write(in, 0, v)
	}
	return errUnknown
}

// read is the value of an instruction's argument.
func (m *machine) read(in x86asm.Inst, arg int) (uint64, error) {
	switch a := in.Args[arg].(type) {
	case x86asm.Imm:
		return uint64(int64(a)), nil
	case x86asm.Reg:
		i, n, ok := register(a)
		if !ok {
			return 0, errUnknown
		}
		return cut(m.registers[i], n), nil
	case x86asm.Mem:
		at, err := m.address(a)
		if err != nil {
			return 0, err
		}
		return m.load(at, size(in, arg))
	}
	return 0, errUnknown
}

// write stores a value where an instruction's argument says.
func (m *machine) write(in x86asm.Inst, arg int, v uint64) error {
	switch a := in.Args[arg].(type) {
	case x86asm.Reg:
		i, n, ok := register(a)
		if !ok {
			return errUnknown
		}
		if n >= 4 { // the upper half of a register is cleared
			m.registers[i] = cut(v, n)
			return nil
		}
		m.registers[i] = m.registers[i]&^cut(^uint64(0), n) | cut(v, n)
		return nil
	case x86asm.Mem:
		at, err := m.address(a)
		if err != nil {
			return err
		}
		return m.store(at, size(in, arg), v)
	}
	return errUnknown
}

// address is where a memory argument points.
func (m *machine) address(a x86asm.Mem) (uint64, error) {
	if a.Segment != 0 && a.Segment != x86asm.CS && a.Segment != x86asm.DS && a.Segment != x86asm.SS { // thread-local data
		return 0, errUnknown
	}
	at := uint64(a.Disp)
	if a.Base == x86asm.RIP {
		at += m.pc
	} else if a.Base != 0 {
		i, n, ok := register(a.Base)
		if !ok || n != 8 {
			return 0, errUnknown
		}
		at += m.registers[i]
	}
	if a.Index != 0 {
		i, n, ok := register(a.Index)
		if !ok || n != 8 {
			return 0, errUnknown
		}
		at += m.registers[i] * uint64(a.Scale)
	}
	return at, nil
}

// load reads n bytes of the process's memory, or of our stack.
func (m *machine) load(at uint64, n int) (uint64, error) {
	if n != 1 && n != 2 && n != 4 && n != 8 {
		return 0, errUnknown
	}
	b := make([]byte, 8)
	if onStack(at, n) {
		copy(b, m.stack[at-stackBase:][:n])
	} else if _, err := m.memory.ReadAt(b[:n], int64(at)); err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

// store writes n bytes to our stack. A function that writes elsewhere is none to be evaluated.
func (m *machine) store(at uint64, n int, v uint64) error {
	if n < 1 || n > 8 || !onStack(at, n) {
		return errUnknown
	}
	b := make([]byte, 8)
	binary.LittleEndian.PutUint64(b, v)
	copy(m.stack[at-stackBase:], b[:n])
	return nil
}

func onStack(at uint64, n int) bool {
	return at >= stackBase && at <= stackBase+stackSize-uint64(n)
}

func (m *machine) push(v uint64) error {
	m.registers[rsp] -= 8
	return m.store(m.registers[rsp], 8, v)
}

func (m *machine) pop() (uint64, error) {
	at := m.registers[rsp]
	if !onStack(at, 8) {
		return 0, errUnknown
	}
	m.registers[rsp] += 8
	return m.load(at, 8)
}

// register is a register's place and how many bytes of it a name means. AH and its like have none.
func register(r x86asm.Reg) (place, bytes int, ok bool) {
	switch {
	case r >= x86asm.AL && r <= x86asm.BL:
		return int(r - x86asm.AL), 1, true
	case r >= x86asm.SPB && r <= x86asm.R15B:
		return int(r-x86asm.SPB) + 4, 1, true
	case r >= x86asm.AX && r <= x86asm.R15W:
		return int(r - x86asm.AX), 2, true
	case r >= x86asm.EAX && r <= x86asm.R15L:
		return int(r - x86asm.EAX), 4, true
	case r >= x86asm.RAX && r <= x86asm.R15:
		return int(r - x86asm.RAX), 8, true
	}
	return 0, 0, false
}

// size is how many bytes an argument has.
func size(in x86asm.Inst, arg int) int {
	switch a := in.Args[arg].(type) {
	case x86asm.Reg:
		_, n, _ := register(a)
		return n
	case x86asm.Mem:
		return in.MemBytes
	}
	return 0
}

func isImm(a x86asm.Arg) bool { _, ok := a.(x86asm.Imm); return ok }

// cut is the lowest n bytes of a value.
func cut(v uint64, n int) uint64 {
	if n >= 8 {
		return v
	}
	return v & (1<<(8*n) - 1)
}

// extend is a value of n bytes with its sign.
func extend(v uint64, n int) uint64 {
	shift := 64 - 8*n
	return uint64(int64(v<<shift) >> shift)
}
