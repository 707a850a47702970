package integration

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	testlab "github.com/mpiup/mpiup/test/lab"
)

// counter counts and hashes what is written to it.
type counter struct {
	n   int
	sum hash.Hash
}

func newCounter() *counter { return &counter{sum: sha256.New()} }

func (c *counter) Write(b []byte) (int, error) {
	c.n += len(b)
	return c.sum.Write(b)
}

func TestStdoutOf64MB(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	out := newCounter()
	l.run(t, job{hosts: "w0:1,w1:1,w2:1", stdout: out, args: []string{"-n", "2", "sh", "-c", "yes 0123456789abcde | head -c 33554432"}}).OK(t)
	if out.n != 64<<20 {
		t.Errorf("%d bytes came", out.n)
	}
}

// A rank that writes many short lines, each by itself, is not held up for ever.
func TestManyShortLines(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	out := newCounter()
	l.run(t, job{hosts: "w0:1", stdout: out, args: []string{"sh", "-c", "i=0; while [ $i -lt 6000 ]; do /bin/echo x; i=$((i+1)); done"}}).OK(t)
	if out.n != 2*6000 {
		t.Errorf("%d bytes came", out.n)
	}
}

// A reader that goes when the ranks have ended, and has not read all that they wrote, fails the run as one that goes before.
func TestLateReaderGoes(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	ended := filepath.Join(l.folder(t), "ended")
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	r := l.start(t, job{hosts: "w0:1", stdout: writer, args: []string{"sh", "-c", "head -c 100000 /dev/zero && touch " + ended}}) // more than a pipe holds
	testlab.Eventually(t, "the rank has written", func() bool { _, err := os.Stat(ended); return err == nil })
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	if r := r.Wait(t); r.Code != 141 || !strings.Contains(r.Stderr, "nobody reads standard output") {
		t.Errorf("ended with %d:\n%s", r.Code, r.Stderr)
	}
}

func TestBinaryStdout(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	dir := l.folder(t)
	data := append(noise(8<<20), "end without a line end\r"...)
	if err := os.WriteFile(filepath.Join(dir, "in"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	out := newCounter()
	l.run(t, job{hosts: "w0:1", stdout: out, args: []string{"--output-dir", dir, "cat", filepath.Join(dir, "in")}}).OK(t)
	want := sha256.Sum256(data)
	if !bytes.Equal(out.sum.Sum(nil), want[:]) {
		t.Errorf("%d bytes went in, %d other ones came out", len(data), out.n)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "rank.*", "stdout"))
	if len(files) != 1 {
		t.Fatalf("files %q", files)
	}
	if got, err := os.ReadFile(files[0]); err != nil || !bytes.Equal(got, data) {
		t.Errorf("the file of rank 0 has %d bytes, other ones than rank 0 wrote (%v)", len(got), err)
	}
}

// What a program printed and did not flush before it was killed is there where its standard output is a terminal:
// with --pty, and under the names of Open MPI, whose mpirun gives one too. Files and JSON have pipes.
func TestUnflushedLines(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	program, dir := l.program(t, "unflushed"), l.folder(t)
	const tty = "terminals 010\n"
	for _, c := range []struct {
		name, out string
		as        string // mpirun of that family; "": mpiup run
		env       []string
		args      []string
	}{
		{name: "a pipe"},
		{name: "asked for", args: []string{"--pty"}, out: tty},
		{name: "by the variable", env: []string{"MPIUP_PTY=1"}, out: tty},
		{name: "not asked for", env: []string{"MPIUP_PTY=1"}, args: []string{"--pty=false"}},
		{name: "with tags", args: []string{"--pty", "--tag-output"}, out: "[0] " + tty},
		{name: "into files", env: []string{"MPIUP_PTY=1"}, args: []string{"--output-dir", dir}},
		{name: "as Open MPI's", as: "openmpi", out: tty},
		{name: "as Open MPI's, without", as: "openmpi", env: []string{"MPIUP_PTY=0"}},
		{name: "as Open MPI's, into files", as: "openmpi", args: []string{"--output-filename", dir}},
		{name: "as Hydra's", as: "hydra"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := append(c.args, "-n", "1", program)
			var r result
			if c.as == "" {
				r = l.run(t, job{hosts: "w0:1", env: c.env, args: args})
			} else {
				r = l.called(t, "mpirun", job{env: append(c.env, "MPIUP_FAMILY="+c.as)}, append([]string{"-host", "w0"}, args...)...)
			}
			says := []string{"was killed by signal 9"}
			if c.out == "" {
				says = append(says, "lines that it had not flushed are lost with it: --pty")
			}
			if r.Fails(t, 137, says...); r.Stdout != c.out {
				t.Errorf("stdout is %q, want %q", r.Stdout, c.out)
			}
		})
	}
}

// chatter writes 300 numbered lines of 7 to 700 letters in pieces, on both streams in turn.
const chatter = `BEGIN { r = ENVIRON["MPIUP_RANK"]; s = "abcdefg"; for (i = 1; i <= 100; i++) x = x s
	for (i = 0; i < 300; i++) { out = i % 2 ? "/dev/stderr" : "/dev/stdout"
		printf "rank %d ", r > out; if (i % 3 == 0) fflush(out)
		printf "line %d ", i > out; if (i % 5 == 0) fflush(out)
		printf "%s.\n", substr(x, 1, 7 + 7 * (i % 100)) > out; if (i % 7 == 0) fflush(out) } }`

func TestLinesStayWhole(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	const line = `rank (\d) line (\d+) ((abcdefg)+)\.`
	const stamp = `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z `
	for _, c := range []struct{ flags, line string }{
		{"", line},
		{"--tag-output", `\[\d\] ` + line},
		{"--timestamp", stamp + line},
		{"--tag-output --timestamp", stamp + `\[\d\] ` + line},
		{"--output json", ""},
	} {
		t.Run("with "+c.flags, func(t *testing.T) {
			t.Parallel()
			r := l.run(t, job{hosts: three, args: append(strings.Fields(c.flags), "-n", "6", "awk", chatter)}).OK(t)
			text := r.Stdout + r.Stderr
			if c.line == "" {
				text, c.line = plainOf(t, text), line
			}
			whole(t, text, c.line)
		})
	}
}

// whole checks that text is 6 x 300 lines, each whole, each stream of each rank in order.
func whole(t *testing.T, text, form string) {
	t.Helper()
	is := regexp.MustCompile("^" + form + "\n$")
	last := map[string]int{}
	n := 0
	for got := range strings.Lines(text) {
		m := is.FindStringSubmatch(got)
		if m == nil {
			t.Fatalf("line %d is no line of a rank: %.900q", n, got)
		}
		m = m[len(m)-4:]
		var i int
		fmt.Sscan(m[1], &i)
		stream := fmt.Sprint(m[0], i%2)
		if before, ok := last[stream]; ok && i != before+2 {
			t.Fatalf("rank %s: line %d after %d", m[0], i, before)
		}
		last[stream] = i
		n++
	}
	if n != 6*300 {
		t.Errorf("%d lines", n)
	}
}

// plainOf checks JSON lines and returns their texts.
func plainOf(t *testing.T, text string) string {
	t.Helper()
	var b strings.Builder
	for line := range strings.Lines(text) {
		var o struct {
			Time               time.Time
			Rank               int
			Host, Stream, Text string
			Partial            bool
		}
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Fatalf("%v: %.900q", err, line)
		}
		if o.Host != fmt.Sprintf("w%d", o.Rank/2) || time.Since(o.Time).Abs() > time.Hour || !strings.HasPrefix(o.Text, fmt.Sprintf("rank %d ", o.Rank)) {
			t.Fatalf("%.900q", line)
		}
		b.WriteString(o.Text)
		if !o.Partial {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func TestWorkerLogs(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	mark := filepath.Base(l.folder(t))
	l.run(t, job{hosts: three, args: []string{"-n", "6", "--worker-logs", "sh", "-c",
		"for i in 1 2 3; do echo " + mark + " out $i; echo " + mark + " err $i >&2; done; printf '" + mark + " last'"}}).OK(t)
	for h, a := range l.agents {
		local := int(h[1]-'0') * 2
		var want []string
		for r := local; r < local+2; r++ {
			for i := 1; i <= 3; i++ {
				want = append(want, fmt.Sprintf("[%d] %s out %d\n", r, mark, i))
			}
			want = append(want, fmt.Sprintf("[%d] %s last\n", r, mark))
		}
		for _, w := range want {
			testlab.Eventually(t, fmt.Sprintf("%q in the log of %s:\n%s", w, h, a.Stdout), func() bool { return strings.Contains(a.Stdout.String(), w) })
		}
		if !strings.Contains(a.Stderr.String(), fmt.Sprintf("[%d] %s err 3\n", local, mark)) {
			t.Errorf("log of %s:\n%s", h, a.Stderr)
		}
	}
}

func TestLastLineWithoutEnd(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	if r := l.run(t, job{hosts: "w0:1", args: []string{"printf", `one\rtwo\nthree`}}).OK(t); r.Stdout != "one\rtwo\nthree" {
		t.Errorf("printed %q", r.Stdout)
	}
	if r := l.run(t, job{hosts: "w0:1", args: []string{"--tag-output", "printf", `one\ntwo`}}).OK(t); strings.TrimSuffix(r.Stdout, "\n") != "[0] one\n[0] two" {
		t.Errorf("printed %q", r.Stdout)
	}
}

// What mpiup says at the end begins a line of its own.
func TestFailureWithinALine(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	r := l.run(t, job{hosts: "w0:1", args: []string{"sh", "-c", "printf oops >&2; exit 3"}})
	r.Fails(t, 3, "oops\n\nmpiup: rank 0 on w0 exited with code 3\n")
}

func TestReaderThatGoesAway(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	r := l.command(t, job{}, "bash", "-c", l.bin+" run --key "+l.key+" --host w0:1,w1:1 yes | head -1; echo ${PIPESTATUS[0]}").Wait(t)
	if !slices.Equal(strings.Fields(r.Stdout), []string{"y", "141"}) {
		t.Errorf("printed %q, %s", r.Stdout, r.Stderr)
	}
	r = l.command(t, job{}, "bash", "-c", l.bin+" run --key "+l.key+" --host w0:1,w1:1 echo y | head -1; echo ${PIPESTATUS[0]}").Wait(t)
	if !strings.HasPrefix(r.Stdout, "y\n") {
		t.Errorf("printed %q, %s", r.Stdout, r.Stderr)
	}
}

// What ranks leave behind ends with the job, which is said once, however many they are, and not where a run failed or nothing is left.
func TestLeftBehindIsSaidOnce(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	const left, cut = "ranks left processes behind, which end with the job: sleep", "its output is still open after its end"
	for _, c := range []struct {
		name, script string
		code         int
		says         string
	}{
		{"silent ones", "setsid sleep 1000 >/dev/null 2>&1 </dev/null & exit 0", 0, left},
		{"with the output", "setsid sleep 1000 & exit 0", 0, cut},
		{"of ranks that failed", "setsid sleep 1000 >/dev/null 2>&1 </dev/null & exit 3", 3, ""},
		{"that end by themselves", "sleep 0.01 >/dev/null 2>&1 </dev/null & exit 0", 0, ""},
		{"nothing", "exit 0", 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := l.run(t, job{hosts: "w0:2,w1:2", args: []string{"-n", "4", "sh", "-c", c.script}})
			said := strings.Count(r.Stderr, left) + strings.Count(r.Stderr, cut)
			if r.Code != c.code || said != len(c.says[:min(len(c.says), 1)]) || !strings.Contains(r.Stderr, c.says) {
				t.Errorf("ended with %d, said it %d times:\n%s", r.Code, said, r.Stderr)
			}
		})
	}
}

// A grandchild that keeps the pipe is ended with the job, and its output is waited for a while.
func TestGrandchildHoldsOutput(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	mark := "1917" + filepath.Base(l.folder(t))[5:]
	r := l.run(t, job{hosts: "w0:1", args: []string{"sh", "-c", "setsid sleep " + mark + " & echo done"}})
	if r.Code != 0 || r.Stdout != "done\n" || !strings.Contains(r.Stderr, "its output is still open after its end, most likely in a process that it left behind") {
		t.Errorf("ended with %d, printed %q, %s", r.Code, r.Stdout, r.Stderr)
	}
	if got := l.matching(t, "w0", "sleep "+mark); len(got) > 0 {
		t.Errorf("the run is over and there still is %v", got)
	}
	// One that lets go soon is heard to the end.
	r = l.run(t, job{hosts: "w0:1", args: []string{"sh", "-c", "(sleep 0.3; echo late) & echo done"}}).OK(t)
	if r.Stdout != "done\nlate\n" {
		t.Errorf("printed %q", r.Stdout)
	}
}
