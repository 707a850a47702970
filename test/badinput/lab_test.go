package badinput

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/lab"
)

// bin is the binary under test; key is the job's secret in a file.
var bin, key string

func TestMain(m *testing.M) { os.Exit(lab.Main(m, setUp, nil)) }

func setUp(dir string) (err error) {
	if bin, err = lab.Binary(dir); err != nil {
		return err
	}
	key = filepath.Join(dir, "key")
	return keygen(key)
}

func keygen(file string) error { return lab.Keygen(bin, file, 0o600) }

const port = "16748" // the agent's default

const bound = 90 * time.Second // for any command, on a slow and busy machine

// ended is what a command came to.
type ended struct {
	lab.Result
	pod bool // it was told that it runs in one, or is for pods
}

// ofPods are words that mean something only to who runs pods.
var ofPods = regexp.MustCompile(`\b(?:kubectl|kubelet|Kubernetes|[Pp]ods?|Secret|NetworkPolicy|securityContext|emptyDir|terminationGracePeriodSeconds)\b`)

// inPod says that variables are those of a pod of an operator's.
func inPod(env []string) bool {
	return slices.ContainsFunc(env, func(kv string) bool {
		return slices.ContainsFunc([]string{"KUBERNETES_", "PET_", "JOB_COMPLETION_", "LWS_", "GROVE_", "VC_", "JOBSET_", "MPIUP_INDEX", "MPIUP_POD"},
			func(p string) bool { return strings.HasPrefix(kv, p) })
	})
}

// mpiup runs the binary to its end. The environment holds the job's key unless env sets
// MPIUP_KEY.
func mpiup(t testing.TB, env []string, args ...string) ended {
	t.Helper()
	c := exec.Command(bin, args...)
	c.Env = append([]string{"PATH=/usr/bin:/bin", "HOME=" + t.TempDir(), "MPIUP_KEY=" + key}, env...)
	return ended{lab.Run(t, bound, c), inPod(env) || slices.Contains([]string{"up", "check-image", "kubectl"}, args[0])}
}

// check compares a command's end with what a case wants.
func (e ended) check(t *testing.T, code int, says ...string) {
	t.Helper()
	if e.Code != code {
		t.Errorf("exit code %d, not %d:\n%s", e.Code, code, e.Stderr)
	}
	for _, s := range says {
		if n := strings.Count(e.Stderr, s); n == 0 {
			t.Errorf("it does not say %q:\n%s", s, e.Stderr)
		}
	}
	for line := range strings.Lines(e.Stderr) {
		if len(line) > 600 {
			t.Errorf("a line of %d bytes: %s", len(line), line)
		}
		if word := ofPods.FindString(line); word != "" && !e.pod {
			t.Errorf("%q, where there are no pods: %s", word, line)
		}
	}
	if strings.Contains(e.Stderr, "panic") || strings.Contains(e.Stderr, "goroutine ") {
		t.Errorf("it crashed:\n%s", e.Stderr)
	}
}

// startAgent starts an agent that has the job's key unless env sets MPIUP_KEY.
func startAgent(t testing.TB, env []string, args ...string) *lab.Loopback {
	t.Helper()
	return lab.NewLoopback(t, bin, append([]string{"MPIUP_KEY=" + key}, env...), append([]string{"--no-gossip"}, args...)...)
}

// listen serves each connection to a new loopback address, on the agent's port, with f.
func listen(t testing.TB, f func(net.Conn)) (addr string) {
	t.Helper()
	addr = lab.Address()
	l, err := net.Listen("tcp", net.JoinHostPort(addr, port))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { defer c.Close(); c.SetDeadline(time.Now().Add(bound)); f(c) })
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return addr
}
