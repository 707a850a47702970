package integration

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/mpiup/mpiup/test/golden"
	testlab "github.com/mpiup/mpiup/test/lab"
)

// A run on one machine is looked at by its user without hosts and without a secret: testdata/nearby.txt has what is shown of a real one. What differs
// from one to the next is N.
func TestLookAtALocalRun(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	env := []string{"PATH=/usr/bin:/bin", "XDG_RUNTIME_DIR=" + t.TempDir(), "HOME=" + t.TempDir()}
	run := exec.Command(l.bin, "run", "-n", "2", "sh", "-c", "echo rank $MPIUP_RANK waits; echo it is slow >&2; exec sleep 1000")
	run.Env = env
	p, err := testlab.StartHere(run)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = run.Process.Signal(syscall.SIGTERM) // it may have ended
		<-p.Done
	})
	p.Says(t, "rank 0 waits\n", "rank 1 waits\n")
	look := func(args ...string) testlab.Result {
		cmd := exec.Command(l.bin, args...)
		cmd.Env = env
		return testlab.Run(t, testlab.Bound, cmd)
	}
	testlab.Eventually(t, "both wait", func() bool { return strings.Count(look("ps").Stdout, " clock_nanosleep\n") == 2 })
	host := strings.Fields(look("ps", "--json").OK(t).Stdout)
	name := host[1+indexOf(host, `"host":`)]
	var all strings.Builder
	for _, args := range [][]string{{"ps"}, {"peers"}, {"logs"}, {"logs", "--rank", "1", "--stream", "stderr"}, {"logs", "--rank", "7"}, {"stacks", "--ranks", "7"}} {
		r := look(args...)
		all.WriteString("$ mpiup " + strings.Join(args, " ") + "\n" + r.Stdout + r.Stderr + "\n")
	}
	text := strings.ReplaceAll(all.String(), strings.Trim(name, `",`), "HOST")
	text = regexp.MustCompile(`job [0-9a-f]+(-\d+)?`).ReplaceAllString(text, "job N")
	text = regexp.MustCompile(`\d+s ago`).ReplaceAllString(text, "N ago")
	text = regexp.MustCompile(` {2,}`).ReplaceAllString(text, "  ")
	text = regexp.MustCompile(`\b\d+(\.\d+)?[KMG]?\b`).ReplaceAllStringFunc(text, func(s string) string {
		if s == "0" || s == "1" || s == "7" { // ranks
			return s
		}
		return "N"
	})
	golden.Is(t, filepath.Join("testdata", "nearby.txt"), text)

	// Nor is it hidden by a secret or by hosts that the environment names, whatever becomes of these; only flags name other hosts alone.
	key := filepath.Join(t.TempDir(), "key")
	look("keygen", key)
	plain := env
	for says, more := range map[string][]string{
		"":                                  {"MPIUP_KEY=" + key},
		"mpiup: only runs on this machine ": {"MPIUP_KEY=/none"},
		"job's secret: no job secret found": {"MPIUP_HOSTS=w0"},
		"connection refused":                {"MPIUP_KEY=" + key, "MPIUP_HOSTS=127.0.0.7"},
	} {
		env = append(plain[:len(plain):len(plain)], more...)
		for _, args := range [][]string{{"ps"}, {"stacks"}, {"ps", "--for", "2s"}, {"peers"}} {
			if r := look(args...); !strings.Contains(r.Stdout, "sleep") || !strings.Contains(r.Stdout+r.Stderr, says) {
				t.Errorf("%v %v: %d\n%s%s", more, args, r.Code, r.Stdout, r.Stderr)
			}
		}
		if r := look("ps", "--host", "127.0.0.8"); r.Code == 0 || strings.Contains(r.Stdout, "sleep") {
			t.Errorf("%v: a host that a flag names\n%s%s", more, r.Stdout, r.Stderr)
		}
	}
}

func indexOf(list []string, word string) int {
	for i, w := range list {
		if w == word {
			return i
		}
	}
	return -1
}
