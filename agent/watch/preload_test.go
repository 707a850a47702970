package watch

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/test/need"
)

// The library's own code on calls whose lengths are known (testdata/pace.c): of short ones that follow each other closely it measures one
// in thirty-two and is right on average, and where each step has a long one among them, or they are far between, it measures all.
func TestPace(t *testing.T) {
	need.Program(t, "gcc", "gcc")
	program := filepath.Join(t.TempDir(), "pace")
	if out, err := exec.Command("gcc", "-O2", "-o", program, "testdata/pace.c", "preload/pace.c", "preload/sum.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(program).Output()
	if err != nil {
		t.Fatal(err)
	}
	within := map[string]struct{ off, least, most float64 }{
		"short":       {0.01, 0.02, 0.05},
		"seldom-long": {0.1, 0.1, 0.5},
		"pipeline":    {0.001, 0.99, 1},
		"sparse":      {0.001, 1, 1},
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != len(within) {
		t.Fatalf("%s", out)
	}
	for _, line := range lines {
		var name string
		var sum, part float64
		if _, err := fmt.Sscan(line, &name, &sum, &part); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if w := within[name]; sum < 1-w.off || sum > 1+w.off || part < w.least || part > w.most {
			t.Errorf("%s: the sum is %.4f of the true one, by %.4f of the calls", name, sum, part)
		}
	}
}

// One file of the library serves processes of glibc and of musl: it is silent in a process without MPI, and
// measures one whose MPI library is a stand-in (testdata/standin.c), built with that libc.
func TestLibcs(t *testing.T) {
	need.Program(t, "gcc", "gcc")
	need.Program(t, "musl-gcc", "musl-gcc")
	preload := built(t)
	f, err := elf.Open(preload)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if libraries, err := f.ImportedLibraries(); err != nil || len(libraries) != 0 {
		t.Errorf("it needs %q: %v", libraries, err)
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF {
			t.Errorf("it exports %s: who asks for that name finds the library", s.Name)
		}
	}
	for _, cc := range []string{"gcc", "musl-gcc"} {
		t.Run(cc, func(t *testing.T) {
			s := watchedStandIn(t, cc, preload, "standin.c", "libmpi.so")
			if s.State != job.Finalized || s.Size != 1 || s.Seq != 5 || len(s.Points) == 0 || s.Points[len(s.Points)-1].Waited < 100*time.Millisecond {
				t.Errorf("the page says %+v", s.Waits)
			}
		})
	}
}

// A rank that a shell or another program starts is watched, and neither they nor what else they start see anything of it.
func TestThroughOtherPrograms(t *testing.T) {
	need.Program(t, "gcc", "gcc")
	dir := t.TempDir()
	preload, library, program := built(t), filepath.Join(dir, "libmpi.so"), filepath.Join(dir, "program")
	compile(t, "gcc", "-shared", "-fPIC", "-DLIBRARY", "-o", library, "testdata/standin.c")
	compile(t, "gcc", "-o", program, "testdata/standin.c", library)
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n\"$@\"\nexit $?\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	const clean = `test -z "$LD_PRELOAD$MPIUP_WATCH_PAGE" && ! env | grep -E 'LD_PRELOAD|WATCH_PAGE' && `
	for name, c := range map[string]struct {
		argv    []string
		watched bool
	}{
		"a shell waits for it":       {[]string{"sh", "-c", clean + `"$0" watched; exit $?`, program}, true},
		"a shell becomes it":         {[]string{"sh", "-c", clean + `exec "$0" watched`, program}, true},
		"bash":                       {[]string{"bash", "-c", clean + `"$0" watched; exit $?`, program}, true},
		"env and nice":               {[]string{"env", "A=b", "nice", program, "watched"}, true},
		"a script, found by its #!":  {[]string{"sh", "-c", clean + `"$@"; exit $?`, "sh", script, program, "watched"}, true},
		"what another program forks": {[]string{"xargs", "-a", "/dev/null", program, "watched"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "page")
			page, err := Create(path)
			if err != nil {
				t.Fatal(err)
			}
			defer page.Close()
			cmd := exec.CommandContext(t.Context(), c.argv[0], c.argv[1:]...)
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LD_PRELOAD=" + preload, "MPIUP_WATCH_PAGE=" + path}
			anybody := func(owner int) int { return owner }
			if out, err := claimed(t, page, cmd, anybody); err != nil || out != "" {
				t.Fatalf("%v\n%s", err, out)
			}
			if s, err := page.Read(&Copies{}); err != nil || (s.State == job.Finalized && s.Seq == 5) != c.watched {
				t.Errorf("%v, the page says %+v", err, s.Waits)
			}
		})
	}
}

// A layer that says to be MPICH and has handles of its own is handed none but what the program has passed, and is not taken for healthy.
func TestLayer(t *testing.T) {
	need.Program(t, "gcc", "gcc")
	if s := watchedStandIn(t, "gcc", built(t), "layer.c", "libmpi.so"); s.State != job.Unknown || s.Seq != 0 {
		t.Errorf("the page says %+v", s.Waits)
	}
}

// built is libmpiup-watch.so.
func built(t *testing.T) string {
	t.Helper()
	preload := filepath.Join(t.TempDir(), "preload.so")
	compile(t, "bash", "preload/build.sh", "gcc", preload)
	return preload
}

func compile(t *testing.T, argv ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%q: %v\n%s", argv, err, out)
	}
}

// watchedStandIn compiles testdata/SOURCE as a library and as a program that is linked with it, runs that without a page and with one, and reads the page.
func watchedStandIn(t *testing.T, cc, preload, source, name string, args ...string) Sample {
	t.Helper()
	dir := t.TempDir()
	library, program := filepath.Join(dir, name), filepath.Join(dir, "program")
	compile(t, cc, "-shared", "-fPIC", "-DLIBRARY", "-o", library, "testdata/"+source)
	compile(t, cc, "-o", program, "testdata/"+source, library)
	page, err := Create(filepath.Join(dir, "page"))
	if err != nil {
		t.Fatal(err)
	}
	defer page.Close()
	for _, pages := range []string{"", filepath.Join(dir, "page")} {
		cmd := exec.CommandContext(t.Context(), program, args...)
		if pages != "" && len(args) == 0 {
			cmd.Args = append(cmd.Args, "watched")
		}
		cmd.Env = []string{"LD_PRELOAD=" + preload, "MPIUP_WATCH_PAGE=" + pages}
		itself := func(owner int) int { return map[bool]int{true: owner}[owner == cmd.Process.Pid] }
		if out, err := claimed(t, page, cmd, itself); err != nil || out != "" {
			t.Fatalf("with the page %q: %v\n%s", pages, err, out)
		}
	}
	s, err := page.Read(&Copies{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// claimed runs a program to its end, and claims its page meanwhile, if that is of a process which of knows.
func claimed(t *testing.T, page *Page, cmd *exec.Cmd, of func(owner int) (pid int)) (out string, err error) {
	t.Helper()
	var text strings.Builder
	cmd.Stdout, cmd.Stderr = &text, &text
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			return text.String(), err
		default:
			page.Claim(of)
		}
	}
}

// Calls of NCCL by a program without MPI are counted, those of its children are not, and one that its NCCL does not have fails.
func TestCountsNCCL(t *testing.T) {
	need.Program(t, "gcc", "gcc")
	need.Program(t, "musl-gcc", "musl-gcc")
	preload := built(t)
	for _, cc := range []string{"gcc", "musl-gcc"} {
		t.Run(cc, func(t *testing.T) {
			s := watchedStandIn(t, cc, preload, "nccl.c", "libnccl.so.2", "20", "40", "80")
			sum := 0
			for i := range bins {
				sum += int(binary.NativeEndian.Uint16(s.Bins[2*i:]))
			}
			if s.State != job.Unwatched || s.Newest == 0 || sum != 60 {
				t.Errorf("%d calls until %d, and the page says %+v", sum, s.Newest, s.Waits)
			}
		})
	}
}

// NCCL itself, of the wheel nvidia-nccl-cu12 (make nccl), returns what it returns without the library before it.
func TestRealNCCL(t *testing.T) {
	const pattern = "../../.cache/nccl/lib*/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2"
	found, _ := filepath.Glob(pattern)
	nccl, err := filepath.Abs(append(found, pattern)[0])
	if err != nil {
		t.Fatal(err)
	}
	need.File(t, "nccl", nccl, "make nccl")
	dir := t.TempDir()
	preload, program := built(t), filepath.Join(dir, "program")
	page, err := Create(filepath.Join(dir, "page"))
	if err != nil {
		t.Fatal(err)
	}
	defer page.Close()
	compile(t, "gcc", "-o", program, "testdata/nullcomm.c", nccl, "-Wl,--allow-shlib-undefined,-rpath,"+filepath.Dir(nccl))
	var said [2]string
	for i, env := range [][]string{{}, {"LD_PRELOAD=" + preload, "MPIUP_WATCH_PAGE=" + filepath.Join(dir, "page")}} {
		cmd := exec.CommandContext(t.Context(), program)
		cmd.Env = env
		itself := func(owner int) int { return map[bool]int{true: owner}[owner == cmd.Process.Pid] }
		out, err := claimed(t, page, cmd, itself)
		if said[i] = out; err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	t.Logf("it says %s", said[0])
	s, err := page.Read(&Copies{})
	if err != nil || s.Newest == 0 || said[0] != said[1] || !strings.Contains(said[0], ": 4 ") {
		t.Errorf("%v, the last call in bin %d: with the library before it\n%s", err, s.Newest, said[1])
	}
}

// A call that is not measured lasts since the first look that has seen it, for as long as no other has begun.
func TestPass(t *testing.T) {
	b := newPage()
	b.u32(128, 20)
	look := func(p *pass, passes uint64, now time.Duration) Sample {
		b.u64(136, passes)
		s := parse(b, b, since, now)
		p.see(&s, now)
		return s
	}
	var p pass
	for i, c := range []struct {
		passes    uint64
		now, want time.Duration
	}{{7, 80, 80}, {7, 85, 80}, {8, 90, 90}, {8, 99, 90}} {
		if s := look(&p, c.passes, c.now*time.Second); s.Call != "MPI_Recv" || s.Called != c.want*time.Second || s.Elsewhere != s.Called {
			t.Errorf("look %d: in %q since %v and %v", i, s.Call, s.Called, s.Elsewhere)
		}
	}
	b.u32(128, 0)
	if s := look(&p, 8, 100*time.Second); s.Called != 0 || s.Elsewhere != 0 || p.since != 0 {
		t.Errorf("in no call it is in one since %v and %v", s.Called, s.Elsewhere)
	}
}
