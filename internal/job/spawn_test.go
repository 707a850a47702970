package job

import (
	"slices"
	"strings"
	"testing"
)

func TestSpawnCheck(t *testing.T) {
	one := func(f func(*SpawnProgram)) Spawn {
		p := SpawnProgram{Argv: []string{"child", "-v"}, Procs: 2, Env: []string{"A=b"}}
		f(&p)
		return Spawn{Programs: []SpawnProgram{p}}
	}
	for _, tt := range []struct {
		name string
		r    Spawn
		want string // part of the error; "": none
	}{
		{"usual", one(func(*SpawnProgram) {}), ""},
		{"no program", Spawn{}, "0 programs"},
		{"too many programs", Spawn{Programs: slices.Repeat([]SpawnProgram{{Argv: []string{"x"}, Procs: 1}}, MaxSpawnPrograms+1)}, "programs"},
		{"no name", one(func(p *SpawnProgram) { p.Argv = []string{""} }), "has no name"},
		{"no process", one(func(p *SpawnProgram) { p.Procs = 0 }), "0 processes"},
		{"negative", one(func(p *SpawnProgram) { p.Procs = -1 }), "-1 processes"},
		{"too many together", Spawn{Programs: []SpawnProgram{{Argv: []string{"x"}, Procs: MaxSpawnProcs}, {Argv: []string{"x"}, Procs: 1}}}, "65537 processes"},
		{"NUL", one(func(p *SpawnProgram) { p.Argv[1] = "a\x00b" }), "NUL"},
		{"no variable", one(func(p *SpawnProgram) { p.Env = []string{"=x"} }), "NAME=value"},
		{"large", one(func(p *SpawnProgram) { p.Argv[1] = strings.Repeat("x", MaxSpawnBytes) }), "bytes"},
		{"many", one(func(p *SpawnProgram) { p.Argv = slices.Repeat([]string{"x"}, MaxSpawnStrings+1) }), "strings"},
		{"many keys", Spawn{Programs: []SpawnProgram{{Argv: []string{"x"}, Procs: 1}}, Preput: make([]Pair, MaxPreput+1)}, "keys"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.r.Check()
			if (tt.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
