package eval

import (
	"encoding/hex"
	"io"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/cost"
)

// Where things lie in the tests' process.
const (
	codeAt = 0x401000
	dataAt = 0x402000
)

// process is the memory of one: a piece of code, and a variable.
type process struct {
	code []byte
	data [64]byte
}

func (p *process) ReadAt(b []byte, at int64) (int, error) {
	for begin, part := range map[int64][]byte{codeAt: p.code, dataAt: p.data[:]} {
		if at >= begin && at < begin+int64(len(part)) {
			n := copy(b, part[at-begin:])
			if n < len(b) {
				return n, io.ErrUnexpectedEOF
			}
			return n, nil
		}
	}
	return 0, io.EOF
}

// The variable is read at dataAt by code at codeAt. Each function is written as a compiler would, in a way of its own.
func TestFlag(t *testing.T) {
	for _, c := range []struct {
		name, code string
		value      byte
		flag       int32
		ok         bool
	}{
		// lea data(%rip),%rax; mov (%rax),%eax; test %eax,%eax; setne %al; movzbl %al,%eax; mov %eax,(%rdi); xor %eax,%eax; ret
		{"not zero, no", "488d05f90f0000 8b00 85c0 0f95c0 0fb6c0 8907 31c0 c3", 0, 0, true},
		{"not zero, yes", "488d05f90f0000 8b00 85c0 0f95c0 0fb6c0 8907 31c0 c3", 1, 1, true},
		{"not zero, later", "488d05f90f0000 8b00 85c0 0f95c0 0fb6c0 8907 31c0 c3", 2, 1, true},
		// xor %ecx,%ecx; cmpl $1,data(%rip); setg %cl; mov %ecx,(%rdi); xor %eax,%eax; ret
		{"more than one, no", "31c9 833df70f000001 0f9fc1 890f 31c0 c3", 1, 0, true},
		{"more than one, yes", "31c9 833df70f000001 0f9fc1 890f 31c0 c3", 2, 1, true},
		// endbr64; push %rbx; sub $8,%rsp; mov %rdi,%rbx; call +2; jmp +2 to the end; ... : a function that another one calls
		{"through another function, yes", "f30f1efa 53 4889fb e804000000 31c0 5b c3 833de80f000000 7509 c70700000000 eb07 90 c70701000000 c3", 7, 1, true},
		{"through another function, no", "f30f1efa 53 4889fb e804000000 31c0 5b c3 833de80f000000 7509 c70700000000 eb07 90 c70701000000 c3", 0, 0, true},
		// mov data(%rip),%eax; cmp $2,%eax; mov $0,%ecx; mov $1,%edx; cmove %edx,%ecx; mov %ecx,(%rdi); xor %eax,%eax; ret
		{"a conditional move", "8b05fa0f0000 83f802 b900000000 ba01000000 0f44ca 890f 31c0 c3", 2, 1, true},
		{"a conditional move, not taken", "8b05fa0f0000 83f802 b900000000 ba01000000 0f44ca 890f 31c0 c3", 1, 0, true},

		{"it returns an error", "c70701000000 b80c000000 c3", 0, 0, false},
		{"it stores nothing", "31c0 c3", 0, 0, false},
		{"it writes into the process", "c705f60f000001000000 c70701000000 31c0 c3", 0, 0, false},
		{"it asks the kernel", "0f05 c70701000000 31c0 c3", 0, 0, false},
		{"it has data of its thread", "64488b042500000000 c70701000000 31c0 c3", 0, 0, false},
		{"it takes a lock", "f0ff05f90f0000 c70701000000 31c0 c3", 0, 0, false},
		{"it never ends", "ebfe", 0, 0, false},
		{"it calls itself", "e8fbffffff", 0, 0, false},
		{"it goes where nothing is", "488b05f90f0000 ffe0", 9, 0, false},
		{"a condition of nothing", "0f95c0 8907 31c0 c3", 0, 0, false},
		{"no code", "", 0, 0, false},
		{"no instruction", "06060606", 0, 0, false},
		{"it takes more from the stack than there is", "58 58 58 58 58 58 58 58 58 58 58 58 58 58 58 58 58 58 58 58 58 58 58 58 c3", 0, 0, false},
	} {
		code, err := hex.DecodeString(strings.ReplaceAll(c.code, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		p := &process{code: code}
		p.data[0] = c.value
		if flag, ok := Flag(p, codeAt); flag != c.flag && ok || ok != c.ok {
			t.Errorf("%s: %d, %v; want %d, %v", c.name, flag, ok, c.flag, c.ok)
		}
	}
}

// Whatever code there is, an evaluation ends, and does not panic.
func FuzzFlag(f *testing.F) {
	for _, code := range []string{"488d05f90f00008b0085c00f95c00fb6c0890731c0c3", "ebfe", "48c7c4000000005858c3", "f30f1efa48ffe0"} {
		b, err := hex.DecodeString(code)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, code []byte) {
		defer cost.Watch(t, cost.Parser, len(code))()
		Flag(&process{code: code[:min(len(code), 4096)]}, codeAt)
	})
}
