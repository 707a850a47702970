package guard

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/agent/reap/proctree"
)

// A process in mid-exec shows no environment: the guard does not take that for a stranger's. Kernel threads never
// have one.
func TestGuardWaitsForWhoIsInMidExec(t *testing.T) {
	root := t.TempDir()
	process := func(pid, sid int, image uint64, environ string) {
		t.Helper()
		dir := filepath.Join(root, fmt.Sprint(pid))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		fields := strings.Fields("S 1" + strings.Repeat(" 0", 50)) // from the third of proc_pid_stat(5) on
		fields[2], fields[3], fields[19] = fmt.Sprint(sid), fmt.Sprint(sid), "77"
		fields[23], fields[48] = fmt.Sprint(image), fmt.Sprint(image) // startcode and env_start
		stat := fmt.Sprintf("%d (a b) %s\n", pid, strings.Join(fields, " "))
		for name, text := range map[string]string{"stat": stat, "environ": environ} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	records := []Record{{Session: "abc"}}
	process(100, 100, 4096, "MPIUP_SESSION=other\x00")
	process(101, 0, 0, "")
	if found, sure := leftBehind(proctree.Proc{Root: root}, records); len(found) != 0 || !sure {
		t.Errorf("strangers and kernel threads: %v, sure %v", found, sure)
	}
	process(102, 102, 0, "")
	if found, sure := leftBehind(proctree.Proc{Root: root}, records); len(found) != 0 || sure {
		t.Errorf("one in mid-exec: %v, sure %v", found, sure)
	}
	process(102, 102, 4096, "MPIUP_SESSION=abc\x00")
	if found, _ := leftBehind(proctree.Proc{Root: root}, records); len(found) != 1 || found[0].PID != 102 {
		t.Errorf("once it is there: %v", found)
	}
}
