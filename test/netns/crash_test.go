package netns_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
	"github.com/mpiup/mpiup/test/netns"
)

// TestNothingIsLeftOfACrash kills a process that has a cluster, this test binary run again.
func TestNothingIsLeftOfACrash(t *testing.T) {
	need.Netns(t)
	if os.Getenv("NETNS_TEST_CRASH") != "" {
		crash()
	}
	cmd := exec.Command("/proc/self/exe", "-test.run", "^TestNothingIsLeftOfACrash$")
	cmd.Env = append(os.Environ(), "NETNS_TEST_CRASH=1")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var init, other int
	var dir string
	if _, err := fmt.Sscan(line, &init, &other, &dir); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for _, pid := range []int{init, other} {
		lab.Eventually(t, fmt.Sprintf("end of pid %d", pid), func() bool {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			return err != nil || len(b) == 0 || !strings.Contains(string(b), "sleep")
		})
	}
	for _, pattern := range []string{dir, "/sys/fs/cgroup/cpu/" + filepath.Base(dir) + ".*"} {
		lab.Eventually(t, pattern+" removed", func() bool {
			left, _ := filepath.Glob(pattern)
			if len(left) > 0 { // the next cluster sweeps, once the kernel has let go
				up(t, netns.Config{Hosts: workers(1)})
			}
			return len(left) == 0
		})
	}
}

func crash() {
	c, err := netns.Up(context.Background(), netns.Config{Hosts: []string{"w0"}})
	if err != nil {
		panic(err)
	}
	cmd := c.Command(context.Background(), "w0", "setsid", "sleep", "54321")
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	_ = c.Throttle("w0", 0.5)
	fmt.Println(c.Pid("w0"), cmd.Process.Pid, filepath.Dir(c.Dir("w0")))
	select {}
}
