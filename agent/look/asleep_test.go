package look

import (
	"bytes"
	"context"
	"debug/elf"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/agent/reap"
	"github.com/mpiup/mpiup/agent/reap/proctree"
	"github.com/mpiup/mpiup/test/cost"
	"github.com/mpiup/mpiup/test/need"
)

// A rank that sleeps, and one that polls, is looked into without a trace of it, and goes on.
func TestAsleep(t *testing.T) {
	need.Program(t, "eu-stack", "elfutils")
	need.Program(t, "python3", "python3")
	if _, ok := registers[runtime.GOARCH]; !ok {
		t.Logf("on %s there is nothing to look for", runtime.GOARCH)
		return
	}
	for _, tt := range []struct{ name, script, want string }{
		{"sleeps", "echo; exec sleep 1000", "nanosleep"},
		{"polls", `exec python3 -c 'print(flush=True)
while True: pass'`, "Eval"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			target, _ := child(t, tt.script)
			l := &taking{proc: proctree.Proc{Root: "/proc"}, StackConfig: StackConfig{
				Run: func(ctx context.Context, argv []string, _ *reap.User, _ int) (string, error) {
					out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).Output()
					return string(out), err
				}}}
			got := ""
			for range 1000 { // until it has become what it will be
				if got = strings.Join(l.asleep(t.Context(), target.PID), " "); strings.Contains(got, tt.want) {
					break
				}
			}
			if !strings.Contains(got, tt.want) {
				t.Errorf("frames %q, notes %q", got, l.notes)
			}
			if s, err := l.proc.Stat(target.PID); err != nil || s.State == 'T' {
				t.Errorf("it is left in state %c: %v", s.State, err)
			}
		})
	}
}

// What a process says of its mappings costs a bounded time and a core file that debug/elf can read.
func FuzzCoreOfMappings(f *testing.F) {
	f.Add("00400000-00452000 r-xp 00000000 08:02 1 /usr/bin/x y\n7ffd0000-7ffd2000 rw-p 00000000 00:00 0 [stack]\n7fff0000-7fff2000 r-xp 0 00:00 0 [vdso]\n", uint64(0x7ffd1000))
	f.Add("0-ffffffffffffffff r-xp 0 0 0 /a\n", uint64(1))
	f.Fuzz(func(t *testing.T, text string, top uint64) {
		defer cost.Watch(t, cost.Parser, len(text))()
		core := encode(1, 2, top, nil, mappings(text), strings.NewReader("\x7fELF"))
		if file, err := elf.NewFile(bytes.NewReader(core)); err != nil || file.Type != elf.ET_CORE {
			t.Errorf("%v", err)
		}
	})
}
