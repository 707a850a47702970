package host

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/mpiup/mpiup/test/machine"
	"github.com/mpiup/mpiup/topology/sysfs"
)

func TestMachineIsReadAgainWhenOthersAreAllowed(t *testing.T) {
	files := machine.Load(t, "dual")
	var m known
	first, err := m.xml(sysfs.New(files))
	if err != nil || !strings.Contains(first, `allowed_cpuset="0x000000ff"`) {
		t.Fatalf("%v:\n%s", err, first)
	}
	hidden := fstest.MapFS{"proc/self/status": files["proc/self/status"]} // nothing else is asked for
	if again, err := m.xml(sysfs.New(hidden)); again != first || err != nil {
		t.Errorf("the machine was read again: %v", err)
	}
	second, err := m.xml(sysfs.New(machine.Load(t, "cgroup")))
	if err != nil || !strings.Contains(second, `allowed_cpuset="0x00000011"`) {
		t.Errorf("%v:\n%s", err, second)
	}
	if text, err := m.xml(sysfs.New(fstest.MapFS{})); text != "" || err == nil {
		t.Errorf("a machine without files: %v", err)
	}
}

// A job that ranks spawn after the cpuset has changed gets another file; the first stays.
func TestHintFiles(t *testing.T) {
	var f Hints
	defer f.Close()
	first, err := f.Path("one")
	if err != nil {
		t.Fatal(err)
	}
	second, err := f.Path("two")
	if err != nil || second == first {
		t.Fatalf("%s after %s: %v", second, first, err)
	}
	for path, want := range map[string]string{first: "one", second: "two"} {
		if text, err := os.ReadFile(path); string(text) != want || err != nil {
			t.Errorf("%s holds %q, %v; want %q", path, text, err, want)
		}
	}
	if again, err := f.Path("two"); again != second || err != nil {
		t.Errorf("%s after %s: %v", again, second, err)
	}
}
