package spawn

import (
	"slices"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	one := func(f func(*Program)) Request {
		p := Program{Argv: []string{"child", "-v"}, Procs: 2, Env: []string{"A=b"}}
		f(&p)
		return Request{Programs: []Program{p}}
	}
	for _, tt := range []struct {
		name string
		r    Request
		want string // part of the error; "": none
	}{
		{"usual", one(func(*Program) {}), ""},
		{"no program", Request{}, "0 programs"},
		{"too many programs", Request{Programs: slices.Repeat([]Program{{Argv: []string{"x"}, Procs: 1}}, MaxPrograms+1)}, "programs"},
		{"no name", one(func(p *Program) { p.Argv = []string{""} }), "has no name"},
		{"no process", one(func(p *Program) { p.Procs = 0 }), "0 processes"},
		{"negative", one(func(p *Program) { p.Procs = -1 }), "-1 processes"},
		{"too many together", Request{Programs: []Program{{Argv: []string{"x"}, Procs: MaxProcs}, {Argv: []string{"x"}, Procs: 1}}}, "65537 processes"},
		{"NUL", one(func(p *Program) { p.Argv[1] = "a\x00b" }), "NUL"},
		{"no variable", one(func(p *Program) { p.Env = []string{"=x"} }), "NAME=value"},
		{"large", one(func(p *Program) { p.Argv[1] = strings.Repeat("x", MaxBytes) }), "bytes"},
		{"many", one(func(p *Program) { p.Argv = slices.Repeat([]string{"x"}, MaxStrings+1) }), "strings"},
		{"many keys", Request{Programs: []Program{{Argv: []string{"x"}, Procs: 1}}, Preput: make([]Pair, MaxPreput+1)}, "keys"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.r.Check()
			if (tt.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
