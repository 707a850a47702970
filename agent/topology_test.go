package agent

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/test/machine"
	"github.com/mpiup/mpiup/topology/sysfs"
)

func TestHwlocVariables(t *testing.T) {
	for _, tt := range []struct{ name, path, set, want string }{
		{"a file", "/run/t.xml", "", "HWLOC_XMLFILE=/run/t.xml HWLOC_THISSYSTEM=1 HWLOC_THISSYSTEM_ALLOWED_RESOURCES=1"},
		{"no file", "", "", ""},
		{"the user's file", "/run/t.xml", "HWLOC_XMLFILE", ""},
		{"another system by the user", "/run/t.xml", "HWLOC_THISSYSTEM", ""},
		{"allowed by the user", "/run/t.xml", "HWLOC_THISSYSTEM_ALLOWED_RESOURCES", ""},
		{"another root by the user", "/run/t.xml", "HWLOC_FSROOT", ""},
		{"no machine at all", "/run/t.xml", "HWLOC_SYNTHETIC", ""},
		{"something else", "/run/t.xml", "HWLOC_HIDE_ERRORS", "HWLOC_XMLFILE=/run/t.xml HWLOC_THISSYSTEM=1 HWLOC_THISSYSTEM_ALLOWED_RESOURCES=1"},
	} {
		got := strings.Join(hwlocVariables(tt.path, func(name string) bool { return name == tt.set }), " ")
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestMachineIsReadAgainWhenOthersAreAllowed(t *testing.T) {
	files := machine.Load(t, "dual")
	var m machineXML
	first, err := m.get(sysfs.New(files))
	if err != nil || !strings.Contains(first, `allowed_cpuset="0x000000ff"`) {
		t.Fatalf("%v:\n%s", err, first)
	}
	hidden := fstest.MapFS{"proc/self/status": files["proc/self/status"]} // nothing else is asked for
	if again, err := m.get(sysfs.New(hidden)); again != first || err != nil {
		t.Errorf("the machine was read again: %v", err)
	}
	second, err := m.get(sysfs.New(machine.Load(t, "cgroup")))
	if err != nil || !strings.Contains(second, `allowed_cpuset="0x00000011"`) {
		t.Errorf("%v:\n%s", err, second)
	}
	if text, err := m.get(sysfs.New(fstest.MapFS{})); text != "" || err == nil {
		t.Errorf("a machine without files: %v", err)
	}
}

// hinted is what a rank that was launched with l says of its hint: the path and the file's size.
func hinted(t *testing.T, c *client, l *apiv1.Launch) (path string, size string) {
	t.Helper()
	l.Apps[0].Argv = []string{"sh", "-c", `echo "file=$HWLOC_XMLFILE" "$(wc -c <"${HWLOC_XMLFILE:-/dev/null}")"`}
	c.start(l)
	path, size, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(stdout(c.until(outputEnd))), "file="), " ")
	if !ok {
		t.Fatalf("the rank said %q", path)
	}
	return path, size
}

func TestRanksAreHandedTheTopology(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	c := newClient(t, newAgent(t), '1', "life-1")
	c.dial(false)
	l := jobLaunch(0, 0, 1, "")
	path, size := hinted(t, c, l)
	info, err := os.Stat(path)
	if err != nil || info.Mode() != fs.FileMode(0o600) || utoa(uint32(info.Size())) != size || info.Size() < 500 {
		t.Fatalf("%s of %s bytes: %v, %v", path, size, info, err)
	}
	if again, _ := hinted(t, c, jobLaunch(1, 1, 1, "")); again != path {
		t.Errorf("the next job got %s, want %s", again, path)
	}
	c.send(&apiv1.Frame{Body: &apiv1.Frame_Bye{Bye: &apiv1.Bye{}}})
	c.until(isClosed)
	if _, err := os.Stat(filepath.Dir(filepath.Dir(path))); !os.IsNotExist(err) {
		t.Errorf("after the session: %v", err)
	}
}

func TestWhoIsNotHandedTheTopology(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for _, tt := range []struct {
		name string
		set  func(*apiv1.Launch)
		want string
	}{
		{"a command", func(l *apiv1.Launch) { l.Exec = true }, ""},
		{"a job that asks for none", func(l *apiv1.Launch) { l.NoTopologyHint = true }, ""},
		{"a job with its own", func(l *apiv1.Launch) { l.Apps[0].Env = []string{"HWLOC_XMLFILE=/dev/null"} }, "/dev/null"},
		{"a job of another machine", func(l *apiv1.Launch) { l.Apps[0].Env = []string{"HWLOC_FSROOT=/x"} }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newClient(t, newAgent(t), '1', "life-1")
			c.dial(false)
			l := jobLaunch(0, 0, 1, "")
			tt.set(l)
			if path, _ := hinted(t, c, l); path != tt.want {
				t.Errorf("got %q, want %q", path, tt.want)
			}
			if h := c.session().job(0).hint; h != (hint{}) {
				t.Errorf("PMI and PMIx are told of %q", h.path)
			}
		})
	}
}

// A container may have no directory to write to: PMIx ranks get the text all the same.
func TestTopologyWithoutADirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", file)
	c := newClient(t, newAgent(t), '1', "life-1")
	c.dial(false)
	path, _ := hinted(t, c, jobLaunch(0, 0, 1, ""))
	if h := c.session().job(0).hint; path != "" || h.path != "" || !strings.Contains(h.xml, "<topology ") {
		t.Errorf("path %q, hint %q with %d bytes", path, h.path, len(h.xml))
	}
}

func TestWriteWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	for _, text := range []string{"one", "another"} {
		if err := writeWhole(path, text); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(path); string(b) != text || err != nil {
			t.Errorf("%q, %v", b, err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := writeWhole(filepath.Join(dir, "d"), "x"); err == nil { // a file cannot replace a directory
		t.Error("no error")
	}
	left, err := filepath.Glob(filepath.Join(dir, ".new-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
