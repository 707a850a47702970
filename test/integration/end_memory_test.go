package integration

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	testlab "github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
	"github.com/mpiup/mpiup/test/netns"
)

// holds has rank 2 use most of its host's memory, for as long as its agent needs to see that, and says so.
const holds = `import os, time
room = bytearray(b"x") * ((225 << 20) if os.environ["MPIUP_RANK"] == "2" else 1)
time.sleep(3)
print("full", flush=True)
time.sleep(1000)
`

// A host whose agent and ranks end together near their limit of memory, as memory.oom.group has it, is lost, and the verdict says how near that was.
func TestHostLostNearItsMemoryLimit(t *testing.T) {
	t.Parallel()
	l := hosted(t).apart(t, netns.Config{Hosts: []string{"w0", "w1"}})
	agents := map[string]*running{}
	for _, host := range []string{"w0", "w1"} {
		a, err := testlab.Start(l.cluster.RunInit(context.Background(), host, l.bin, "agent", "--key", l.key))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.cluster.LimitMemory(host, 300<<20); err != nil {
			need.Done(t, "cgroup", err, "run where memory cgroups can be made")
		}
		if err := a.Until(a.Stderr, "agent is ready"); err != nil {
			t.Fatal(err)
		}
		agents[host] = a
	}
	script := filepath.Join(l.folder(t), "holds.py")
	if err := os.WriteFile(script, []byte(holds), 0o644); err != nil {
		t.Fatal(err)
	}

	p := l.start(t, job{hosts: "w0:2,w1:2", args: []string{"-n", "4", "--node-timeout", "5s", "python3", script}})
	p.Says(t, "full\nfull\nfull\nfull\n")
	_ = agents["w1"].Cmd.Process.Kill() // PID 1 of its namespace: all of it ends
	r := p.Wait(t).Fails(t, 248)
	says := regexp.MustCompile(`\nmpiup: probably the container's memory, 2[2-9][0-9] of 300 MiB (?:less than a second|one second|(?:two|three|four) seconds) before\n`)
	if !says.MatchString(r.Stderr) || !strings.Contains(r.Stderr, "\nmpiup: raise the memory limit") {
		t.Errorf("the verdict has no word of the memory:\n%s", r.Stderr)
	}
}
