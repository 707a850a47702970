package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	testlab "github.com/mpiup/mpiup/test/lab"
)

// A reader that was stopped slows the ranks and grows nobody's memory; when it goes on nothing
// is lost.
func TestStoppedReader(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	dir := l.folder(t)
	// A rank's line is a page long; 2 x 100 MB in all.
	const each = 100 << 20
	script := fmt.Sprintf("exec dd if=/dev/zero bs=1M count=%d", each>>20)
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	reader := exec.Command("wc", "-c")
	reader.Stdin, reader.Stdout = r, out
	if err := reader.Start(); err != nil {
		t.Fatal(err)
	}
	r.Close()
	stop(t, reader.Process.Pid)
	run := l.start(t, job{hosts: "w0:1,w1:1", stdout: w, args: []string{"sh", "-c", script + " 2>" + dir + "/err"}})
	w.Close()
	var writers []int
	for _, h := range []string{"w0", "w1"} {
		var pids []int
		testlab.Eventually(t, "dd runs on "+h, func() bool {
			pids = l.matching(t, h, "dd if=/dev/zero bs=1M")
			return len(pids) == 1
		})
		writers = append(writers, pids...)
	}
	var last [2]int
	same := 0
	testlab.Eventually(t, "the ranks are held up", func() bool {
		now := [2]int{written(t, writers[0]), written(t, writers[1])}
		if same++; now != last {
			last, same = now, 0
		}
		return same > 25 // looks
	})
	for i, n := range last {
		if n > 32<<20 {
			t.Errorf("rank %d could write %d MB for nobody", i, n>>20)
		}
	}
	const most = 100 << 20 // with -race or not; 200 MB of output wait
	for name, pid := range map[string]int{"launcher": run.Cmd.Process.Pid, "agent of w0": l.cluster.Pid("w0"), "agent of w1": l.cluster.Pid("w1")} {
		if n := resident(t, pid); n > most {
			t.Errorf("%s has %d MB resident", name, n>>20)
		}
	}
	if err := reader.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	run.Wait(t).OK(t)
	if err := reader.Wait(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(out.Name())
	if err != nil || strings.TrimSpace(string(got)) != strconv.Itoa(2*each) {
		t.Errorf("%q bytes came of %d, %v", got, 2*each, err)
	}
}

// stop stops a process and waits until it is.
func stop(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	testlab.Eventually(t, "the reader stops", func() bool { return state(pid) == "T" })
}

// state is a process's, as in /proc/PID/stat: R, S, T, Z ...; "" when it is gone.
func state(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	return f[0]
}

// written is what a process has written, in bytes.
func written(t *testing.T, pid int) int { return procNumber(t, pid, "io", "wchar") }

func resident(t *testing.T, pid int) int { return procNumber(t, pid, "status", "VmRSS") << 10 }

func procNumber(t *testing.T, pid int, file, name string) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^` + name + `:\s*(\d+)`).FindSubmatch(b)
	if m == nil {
		t.Fatalf("no %s in /proc/%d/%s", name, pid, file)
	}
	n, _ := strconv.Atoi(string(m[1]))
	return n
}
