package pmi_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/pmi"
)

func TestPMI2Bytes(t *testing.T) {
	m := &pmi.Message{Name: "kvs-put-response", Pairs: []pmi.Pair{{Key: "rc", Value: "0"}}}
	const golden = "    26cmd=kvs-put-response;rc=0;"
	if got := string(pmi.AppendPMI2(nil, m)); got != golden {
		t.Errorf("got %q", got)
	}
}

func TestPMI2Parse(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"plain", "    22cmd=kvs-put;key=k;rc=0;", `kvs-put [{key k} {rc 0}]`},
		{"left justified", "22    cmd=kvs-put;key=k;rc=0;", `kvs-put [{key k} {rc 0}]`},
		{"no end", "    11cmd=a;key=k", `a [{key k}]`},
		{"doubled", "    15cmd=a;v=x;;y;;;", `a [{v x;y;}]`},
		{"blanks", "    16cmd=a; key=k l; ", `a [{key k l}]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := pmi.ReadPMI2(bufio.NewReader(strings.NewReader(tt.in)))
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(m.Name, " ", m.Pairs); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestPMI2Bounds(t *testing.T) {
	pairs := "cmd=a;" + strings.Repeat("a=b;", pmi.MaxPairs+1)
	for _, tt := range []struct {
		name, in string
		want     error // nil: a *SyntaxError
	}{
		{"nothing", "", io.EOF},
		{"cut length", "   1", io.ErrUnexpectedEOF},
		{"cut payload", "    22cmd=kvs", io.ErrUnexpectedEOF},
		{"no payload", "    22", io.ErrUnexpectedEOF},
		{"too long", " 65537", nil},
		{"negative", "    -1", nil},
		{"blank", "      ", nil},
		{"empty", "     0", nil},
		{"many pairs", fmt.Sprintf("%6d%s", len(pairs), pairs), nil},
		{"no command", "     6key=k;", nil},
		{"no key", "     9cmd=a;=v;", nil},
		{"zero byte", "     7cmd=a;\x00", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := pmi.ReadPMI2(bufio.NewReader(strings.NewReader(tt.in)))
			var syntax *pmi.SyntaxError
			if tt.want != nil && err != tt.want || tt.want == nil && !errors.As(err, &syntax) {
				t.Errorf("got %v", err)
			}
		})
	}
}
