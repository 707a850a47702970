package netns_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
	"github.com/mpiup/mpiup/test/netns"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// up is a cluster that is gone at the test's end.
func up(t *testing.T, cfg netns.Config) *netns.Cluster {
	t.Helper()
	need.Netns(t)
	start := time.Now()
	c, err := netns.Up(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d hosts in %v", len(cfg.Hosts), time.Since(start).Round(time.Millisecond))
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func workers(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("w%d", i))
	}
	return names
}

// out runs a shell command on a host and returns its output without the last newline.
func out(t *testing.T, c *netns.Cluster, host, script string) string {
	t.Helper()
	b, err := c.Command(t.Context(), host, "sh", "-c", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %s: %v: %s", host, script, err, b)
	}
	return strings.TrimSuffix(string(b), "\n")
}

func TestHostsAreApart(t *testing.T) {
	c := up(t, netns.Config{Hosts: workers(2)})
	for _, tt := range []struct{ name, host, script, want string }{
		{"host name", "w1", "hostname", "w1"},
		{"own processes", "w0", "ls -d /proc/[0-9]* | wc -l | awk '{ print ($1 < 10) }'", "1"},
		{"own /tmp", "w0", "find /tmp /run /root /dev/shm -mindepth 1", ""},
		{"own interfaces", "w0", "ls /sys/class/net | xargs", "eth0 lo"},
		{"clean environment", "w0", "env | grep -c GO || true", "0"},
		{"names", "launcher", "getent hosts w1 | awk '{ print $1 }'", c.Addr("w1").String()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := out(t, c, tt.host, tt.script); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestManyHosts(t *testing.T) {
	c := up(t, netns.Config{Hosts: workers(64)})
	if got := out(t, c, "w63", "hostname"); got != "w63" {
		t.Errorf("got %q", got)
	}
}

func TestClustersLiveSideBySide(t *testing.T) {
	a, b := up(t, netns.Config{Hosts: workers(1)}), up(t, netns.Config{Hosts: workers(1)})
	out(t, a, "w0", "touch /tmp/mine")
	if got := out(t, b, "w0", "ls /tmp"); got != "" {
		t.Errorf("another cluster's host of the same name has %q", got)
	}
	if a.Addr("w0") != b.Addr("w0") {
		t.Errorf("addresses differ: they are the same test twice")
	}
}

func TestShareAndReadOnlyRoot(t *testing.T) {
	dir := t.TempDir()
	c := up(t, netns.Config{Hosts: workers(1), Share: []string{dir}, ReadOnlyRoot: true})
	out(t, c, "w0", "echo hello > "+dir+"/file")
	if b, err := os.ReadFile(dir + "/file"); string(b) != "hello\n" {
		t.Errorf("shared file: %q, %v", b, err)
	}
	if got := out(t, c, "w0", "touch /var/x 2>&1 || true"); !strings.Contains(got, "Read-only") {
		t.Errorf("write to the root: %q", got)
	}
	out(t, c, "w0", "touch /tmp/x /run/x")
}

func TestUsersAndCapabilities(t *testing.T) {
	c := up(t, netns.Config{Hosts: workers(1)})
	const show = "id -u; grep -E 'Cap(Prm|Bnd)|NoNewPrivs' /proc/self/status | awk '{ print $2 }' | xargs"
	none := strings.Repeat("0", 16)
	for _, tt := range []struct {
		name string
		uid  int
		init bool
		want string
	}{
		{"a command of root", 0, false, "0\n" + none + " " + none + " 1\n"},
		{"a command of a user", 54321, false, "54321\n" + none + " " + none + " 1\n"},
		{"PID 1 of root", 0, true, "0\n" + none + " " + none + " 1\n"},
		{"PID 1 of a user", 54321, true, "54321\n" + none + " " + none + " 1\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmd := c.Command(t.Context(), "w0", "sh", "-c", show)
			if tt.init {
				cmd = c.RunInit(t.Context(), "w0", "sh", "-c", show)
			}
			cmd.UID, cmd.NoCaps = tt.uid, true
			got, err := cmd.Output()
			if err != nil || string(got) != tt.want {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
			if tt.init {
				if err := c.Boot("w0"); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestRunInit(t *testing.T) {
	c := up(t, netns.Config{Hosts: workers(1)})
	beside := c.Command(t.Context(), "w0", "sleep", "1000")
	if err := beside.Start(); err != nil {
		t.Fatal(err)
	}

	cmd := c.RunInit(t.Context(), "w0", "sh", "-c", "echo $$; read line; exit 7")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stdout strings.Builder
	cmd.Stdout = &stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := beside.Wait(); err == nil {
		t.Error("the old PID 1's processes lived on")
	}
	if got := out(t, c, "w0", "cat /proc/1/comm"); got != "sh" {
		t.Errorf("PID 1 is %q", got)
	}
	stdin.Close()
	_ = cmd.Wait()
	if cmd.ProcessState.ExitCode() != 7 || stdout.String() != "1\n" {
		t.Errorf("exit code %d, output %q", cmd.ProcessState.ExitCode(), stdout.String())
	}
	if err := c.Command(t.Context(), "w0", "true").Run(); err == nil || !strings.Contains(err.Error(), "host w0") {
		t.Errorf("a command on a host without PID 1: %v", err)
	}
	if err := c.Boot("w0"); err != nil {
		t.Fatal(err)
	}
	out(t, c, "w0", "true")
}

func TestProcessesPauseAndKill(t *testing.T) {
	c := up(t, netns.Config{Hosts: workers(1)})
	cmd := c.Command(t.Context(), "w0", "sh", "-c", "sleep 54321 & wait")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	state := func() string {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		return string(b[strings.LastIndexByte(string(b), ')')+2])
	}
	lab.Eventually(t, "both processes", func() bool {
		ps, err := c.Processes("w0")
		return err == nil && len(ps) == 2 && ps[0].Pid == cmd.Process.Pid && ps[1].Argv == "sleep 54321"
	})
	if err := c.Pause("w0"); err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, "it stands", func() bool { return state() == "T" })
	if err := c.Resume("w0"); err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, "it goes on", func() bool { return state() != "T" })
	if err := c.Kill("w0"); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || c.Pid("w0") != 0 {
		t.Errorf("after Kill: %v, PID 1 %d", err, c.Pid("w0"))
	}
}

func TestThrottle(t *testing.T) {
	c := up(t, netns.Config{Hosts: workers(1)})
	need.Done(t, "cgroup", c.Throttle("w0", 0.1), "run where cpu cgroups can be made")
	got := out(t, c, "w0", "cat /proc/self/cgroup")
	if !strings.Contains(got, "mpiup-netns-") {
		t.Errorf("a command is not in the cgroup: %s", got)
	}
	if err := c.Throttle("w0", 0); err != nil {
		t.Error(err)
	}
}
