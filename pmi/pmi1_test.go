package pmi_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/pmi"
	"github.com/mpiup/mpiup/test/cost"
)

func read(s string) (*pmi.Message, error) {
	return pmi.ReadPMI1(bufio.NewReader(strings.NewReader(s)))
}

func TestPMI1Parse(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"plain", "cmd=put kvsname=K key=k value=v\n", `put [{kvsname K} {key k} {value v}]`},
		{"many blanks", "cmd=put   key=k  \n", `put [{key k}]`},
		{"equals signs", "cmd=put value=(vector,a=b)\n", `put [{value (vector,a=b)}]`},
		{"escaped blank", `cmd=put value=a\ b\\ key=k` + "\n", `put [{value a\ b\\} {key k}]`},
		{"blank as it is", "cmd=abort message=two words exitcode=3\n", `abort [{message two words} {exitcode 3}]`},
		{"empty value", "cmd=put value= key=k\n", `put [{value } {key k}]`},
		{"spawn", "mcmd=spawn\nexecname=a b\narg1=c=d\ntotspawns=1\nspawnssofar=1\nendcmd\n", `spawn [{execname a b} {arg1 c=d} {totspawns 1} {spawnssofar 1} {endcmd }]`},
		{"spawn of two", "mcmd=spawn\nexecname=a\ntotspawns=2\nspawnssofar=1\nendcmd\nmcmd=spawn\nexecname=b\ntotspawns=2\nspawnssofar=2\nendcmd\n",
			`spawn [{execname a} {totspawns 2} {spawnssofar 1} {endcmd } {execname b} {totspawns 2} {spawnssofar 2} {endcmd }]`},
		{"a program as an argument", "mcmd=spawn\narg1=-c\narg2=import x\nfor i in x:\n  a=i\n\nendcmd\n", "spawn [{arg1 -c} {arg2 import x\nfor i in x:\n  a=i\n} {endcmd }]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := read(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(m.Name, " ", m.Pairs); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestPMI1Bounds(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     error // nil: a *SyntaxError
	}{
		{"nothing", "", io.EOF},
		{"cut line", "cmd=put ke", io.ErrUnexpectedEOF},
		{"cut spawn", "mcmd=spawn\nnprocs=1\n", io.ErrUnexpectedEOF},
		{"long line", "cmd=put value=" + strings.Repeat("v", pmi.MaxLine) + "\n", nil},
		{"many pairs", "cmd=put" + strings.Repeat(" a=b", pmi.MaxPairs+1) + "\n", nil},
		{"long spawn", "mcmd=spawn\n" + strings.Repeat("arg1="+strings.Repeat("v", 1000)+"\n", 1100), nil},
		{"many spawn lines", "mcmd=spawn\n" + strings.Repeat("arg1=b\n", 20000), nil},
		{"many blank lines", "mcmd=spawn\narg1=x\n" + strings.Repeat("\n", pmi.MaxSpawn), nil},
		{"spawn number", "mcmd=spawn\ntotspawns=x\n", nil},
		{"spawn word", "mcmd=spawn\nword\n", nil},
		{"spawn inside", "mcmd=spawn\nmcmd=spawn\n", nil},
		{"no name", "mcmd=\n", nil},
		{"long name", "cmd=" + strings.Repeat("n", 65) + "\n", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := read(tt.in)
			var syntax *pmi.SyntaxError
			if tt.want != nil && err != tt.want || tt.want == nil && !errors.As(err, &syntax) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestUnescape(t *testing.T) {
	if got := pmi.Unescape(`a\ b\\c\`); got != `a b\c\` {
		t.Errorf("got %q", got)
	}
}

// What a line costs is its length, whatever its words are: 256 KB of them without "=" took 22 s and 16 GB.
func TestPMI1Cost(t *testing.T) {
	words := strings.Repeat("w ", pmi.MaxLine/2-20)
	for _, tt := range []struct{ name, in string }{
		{"words of a value", "cmd=abort message=" + words + "\n"},
		{"words of many values", "cmd=abort" + strings.Repeat(" a=b"+strings.Repeat(" w", 100), 900) + "\n"},
		{"blanks", "cmd=abort message=x" + strings.Repeat(" ", pmi.MaxLine-20) + "\n"},
		{"backslashes", "cmd=abort message=" + strings.Repeat(`\`, pmi.MaxLine-20) + "\n"},
		{"no command", strings.Repeat("w ", pmi.MaxLine/2-1) + "\n"},
		{"lines of a spawn", "mcmd=spawn\narg1=x\n" + strings.Repeat("line\n", 10_000) + strings.Repeat("arg1=x\nline\n", 5_000) + "endcmd\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cost.AtMost(t, cost.Bound{Fixed: 64 << 10, PerByte: 16}, len(tt.in), func() { read(tt.in) })
		})
	}
}
