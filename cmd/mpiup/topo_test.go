package main

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/test/machine"
	"github.com/mpiup/mpiup/topology/discover"
)

// command runs mpiup with arguments and returns its exit code and what it wrote.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	dir := t.TempDir()
	var files [2]*os.File
	for i, name := range []string{"stdout", "stderr"} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files[i] = f
	}
	code = run(append([]string{"mpiup"}, args...), nil, os.Stdin, files[0], files[1])
	var texts [2]string
	for i, f := range files {
		b, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(b)
	}
	return code, texts[0], texts[1]
}

func summary(t *testing.T, args ...string) discover.Summary {
	t.Helper()
	code, stdout, stderr := command(t, append([]string{"topo", "--json"}, args...)...)
	var doc struct{ Summary discover.Summary }
	if err := json.Unmarshal([]byte(stdout), &doc); err != nil || code != 0 {
		t.Fatalf("%d, %v: %s%s", code, err, stdout, stderr)
	}
	return doc.Summary
}

// A directory, the text of it, and what is captured of either are the same machine.
func TestTopoOfAnotherMachine(t *testing.T) {
	for name, want := range map[string]discover.Summary{
		"dual":     {Packages: 2, NUMANodes: 2, Cores: 4, CPUs: 8},
		"hybrid":   {Packages: 1, NUMANodes: 1, Cores: 6, CPUs: 8},
		"offline":  {Packages: 1, NUMANodes: 1, Cores: 2, CPUs: 2},
		"cgroup":   {Packages: 1, NUMANodes: 1, Cores: 1, CPUs: 1},
		"cpuset":   {Packages: 2, NUMANodes: 1, Cores: 2, CPUs: 4},
		"memory":   {Packages: 4, NUMANodes: 7, Cores: 8, CPUs: 8},
		"clusters": {Packages: 2, NUMANodes: 2, Cores: 16, CPUs: 16},
		"grace":    {Packages: 1, NUMANodes: 2, Cores: 8, CPUs: 8, GPUs: 1},
		"devices":  {Packages: 2, NUMANodes: 2, Cores: 4, CPUs: 8, GPUs: 1, HCAs: 1},
		"h100":     {Packages: 2, NUMANodes: 2, Cores: 96, CPUs: 96, GPUs: 8, HCAs: 8},
		"mi300x":   {Packages: 2, NUMANodes: 2, Cores: 112, CPUs: 224, GPUs: 8, HCAs: 8},
	} {
		t.Run(name, func(t *testing.T) {
			text := filepath.Join(t.TempDir(), "machine.txtar")
			roots := []string{text, write(t, machine.Text(t, name))}
			if want.CPUs < 64 {
				roots = append(roots, machine.Unpack(t, machine.Load(t, name)))
			}
			if code, stdout, stderr := command(t, "topo", "--root", roots[len(roots)-1], "--capture", text); code != 0 || stdout != "" || !strings.Contains(stderr, text) {
				t.Fatal(code, stdout, stderr)
			}
			for _, root := range roots {
				if got := summary(t, "--root", root); got != want {
					t.Errorf("%s: %+v, want %+v", root, got, want)
				}
			}
		})
	}
}

// write is the name of a new file with a text.
func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// What is given to a container is a part of the machine.
func TestTopoOfAContainerWithoutDevices(t *testing.T) {
	files, err := discover.Parse([]byte(machine.Text(t, "h100")))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"dev/nvidia3", "dev/nvidia5", "dev/infiniband/uverbs0"} {
		delete(files, name)
	}
	root := write(t, string(discover.Format("", files)))
	if got := summary(t, "--root", root); got.GPUs != 6 || got.HCAs != 7 {
		t.Errorf("%+v", got)
	}
	_, stdout, _ := command(t, "topo", "--root", root)
	for _, want := range []string{"0000:04:00.0, link 63 GB/s [not usable: no /dev/nvidia3]", "[not usable: no /dev/infiniband/uverbs0]"} {
		if strings.Count(stdout, want) != 1 {
			t.Errorf("%q is not there once:\n%s", want, stdout)
		}
	}
	maps.DeleteFunc(files, func(name string, _ discover.File) bool { return strings.HasPrefix(name, "dev/") })
	if got := summary(t, "--root", write(t, string(discover.Format("", files)))); got.GPUs != 8 || got.HCAs != 8 {
		t.Errorf("where no device file can be seen: %+v", got)
	}
}

func TestTopoHere(t *testing.T) {
	if got := summary(t); got.CPUs < 1 || got.NUMANodes < 1 {
		t.Errorf("%+v", got)
	}
	if code, stdout, stderr := command(t, "topo"); code != 0 || !strings.Contains(stdout, "Usable ") || stderr != "" {
		t.Error(code, stdout, stderr)
	}
	if code, stdout, _ := command(t, "topo", "--capture", "-"); code != 0 || !strings.Contains(stdout, "\n-- proc/self/status --\n") {
		t.Error(code, stdout)
	}
}

func TestTopoRefuses(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"no such directory", []string{"--root", dir + "/none"}, dir + "/none: no such file"},
		{"no machine", []string{"--root", dir}, dir + " holds neither sys/ nor proc/"},
		{"a text that holds none", []string{"--root", write(t, "no machine")}, "/file holds neither sys/ nor proc/"},
		{"a text with a wrong name", []string{"--root", write(t, "-- ../x --\n")}, "/file: ../x: not the name of a file"},
		{"a machine without a CPU", []string{"--root", write(t, "-- sys/x --\n")}, "/file: no CPU is to be seen in /sys/devices/system/cpu"},
		{"a pipe", []string{"--root", pipe}, pipe + " is neither a directory nor a file"},
		{"a directory that cannot be written to", []string{"--capture", dir + "/none/x"}, dir + "/none/x: no such file"},
		{"two ways", []string{"--json", "--capture", "-"}, "[capture json]"},
		{"an argument", []string{"host"}, `unknown command "host"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if code, stdout, stderr := command(t, append([]string{"topo"}, tt.args...)...); code != job.ExitUsage || stdout != "" || !strings.Contains(stderr, tt.want) {
				t.Errorf("%d %s%s, want %s", code, stdout, stderr, tt.want)
			}
		})
	}
}

// A tree that wants to be left, never ends, or has numbers that no machine has.
func TestTopoOfAHostileTree(t *testing.T) {
	files := machine.Load(t, "dual")
	const cpu = "sys/devices/system/cpu/"
	for name, target := range map[string]string{
		"sys/devices/system/node":      "/etc",
		"sys/class/net/eth0":           "../../../../../../../../etc",
		"sys/class/net/eth1":           "../../devices/pci0000:00/0000:00:99.9/net/eth1",
		cpu + "cpu0/topology":          "../cpu1/topology",
		cpu + "cpu3/cache":             "cache",
		"sys/bus/pci/devices":          "devices",
		"sys/class/infiniband":         "../class/infiniband",
		"proc/driver/nvidia/gpus":      "../../../..",
		"sys/devices/cpu_core":         "/proc/self",
		"sys/class/dmi/id":             "/sys/class/dmi/id",
		"proc/cpuinfo":                 "/proc/cpuinfo",
		"dev/null":                     "/dev/null",
		"sys/class/infiniband_verbs":   "/dev",
		"sys/class/kfd/kfd/topology/x": ".",
	} {
		for old := range files {
			if strings.HasPrefix(old, name+"/") {
				delete(files, old)
			}
		}
		files[name] = &fstest.MapFile{Mode: fs.ModeSymlink, Data: []byte(target)}
	}
	files[cpu+"online"] = &fstest.MapFile{Data: []byte("0-4294967295\n")}
	files["sys/fs/cgroup/cpuset.cpus.effective"] = &fstest.MapFile{Data: []byte("0-1048575\n")}
	dir := machine.Unpack(t, files)
	for _, pipe := range []string{"proc/meminfo", cpu + "cpu1/topology/core_id"} {
		_ = os.Remove(filepath.Join(dir, pipe))
		if err := unix.Mkfifo(filepath.Join(dir, pipe), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	huge, err := os.Create(filepath.Join(dir, "proc/mounts"))
	if err != nil {
		t.Fatal(err)
	}
	if err := huge.Truncate(1 << 40); err != nil {
		t.Fatal(err)
	}
	huge.Close()

	code, stdout, stderr := command(t, "topo", "--root", dir)
	if code != 0 || stderr != "" || !strings.Contains(stdout, "8 CPUs (0-7)") {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
	for _, want := range []string{
		`/sys/devices/system/cpu/online: number list "0-4294967295"`, "/proc/mounts is longer than 8388608 bytes",
		"/sys/devices/system/cpu/cpu1/topology/core_id: neither a regular file nor a directory", "too many levels of symbolic links",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no note %q:\n%s", want, stdout)
		}
	}
	if strings.Contains(stdout, "root:") {
		t.Error("the tree was left")
	}
}

// A machine that cannot be written is a failure of the output, not of the command line.
func TestTopoThatCannotBeWritten(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, how := range []string{"--json", "--capture=-"} {
		if code := run([]string{"mpiup", "topo", how}, nil, os.Stdin, full, os.Stderr); code != job.ExitOutput {
			t.Errorf("topo %s to a full disk: exit code %d", how, code)
		}
	}
	if code, _, errs := command(t, "topo", "--capture", "/nonexistent/f"); code != job.ExitUsage {
		t.Errorf("a directory that is not there: exit code %d: %s", code, errs)
	}
}
