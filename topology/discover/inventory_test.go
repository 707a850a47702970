package discover

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/mpiup/mpiup/test/cost"
	"github.com/mpiup/mpiup/test/golden"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// A machine is one archive: the kernel's files under their paths, and what is read of it in the
// section "want".
func TestUsable(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := describe(archive)
			for i := range archive.Files {
				if archive.Files[i].Name != "want" {
					continue
				}
				if golden.Updating() {
					archive.Files[i].Data = []byte(got)
					if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
						t.Fatal(err)
					}
				} else if d := cmp.Diff(string(archive.Files[i].Data), got); d != "" {
					t.Error(d)
				}
				return
			}
			t.Error("no section want")
		})
	}
}

func describe(archive *txtar.Archive) string {
	machine := fstest.MapFS{}
	for _, f := range archive.Files {
		if f.Name != "want" {
			machine[f.Name] = &fstest.MapFile{Data: f.Data}
		}
	}
	inv, err := ReadInventory(sysfs.New(machine))
	var b strings.Builder
	fmt.Fprintf(&b, "cpus %d of threads %s, quota %.2f\n", inv.CPUs, inv.Threads, inv.Quota)
	fmt.Fprintf(&b, "kernel %s\n", inv.Kernel)
	if err != nil {
		fmt.Fprintf(&b, "error %s\n", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	if n, err := FindCgroups(sysfs.New(machine)).OOMKills(); err != nil {
		fmt.Fprintf(&b, "oom kills: %v\n", err)
	} else {
		fmt.Fprintf(&b, "oom kills %d\n", n)
	}
	return b.String()
}

func TestWithoutAnyFile(t *testing.T) {
	inv, err := ReadInventory(sysfs.New(fstest.MapFS{}))
	if err == nil || inv.CPUs != runtime.NumCPU() || inv.Quota != 0 {
		t.Errorf("%+v, %v", inv, err)
	}
	if _, err := FindCgroups(sysfs.New(fstest.MapFS{})).OOMKills(); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// The memory limit of a container by cgroup v2, as a tree: what the kernel counts in the container's own group and below it
// (memory.events is of the whole branch), and where there is nothing to count.
func TestOOMKillsOfATree(t *testing.T) {
	const events = "low 0\nhigh 0\nmax 512\noom 3\noom_kill %s\noom_group_kill 0\n"
	mounts := "30 23 0:26 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw,nsdelegate\n"
	tree := func(own string, files map[string]string) fstest.MapFS {
		m := fstest.MapFS{"proc/self/cgroup": {Data: []byte("0::" + own + "\n")}, "proc/self/mountinfo": {Data: []byte(mounts)}}
		for name, text := range files {
			m["sys/fs/cgroup/"+name] = &fstest.MapFile{Data: []byte(text)}
		}
		return m
	}
	of := func(n string) string { return fmt.Sprintf(events, n) }
	const none = "no memory cgroup"
	for _, tt := range []struct {
		name  string
		own   string
		files map[string]string
		want  uint64
		err   string
	}{
		{"the container's own, by its cgroup namespace", "/", map[string]string{"memory.events": of("2"), "memory.events.local": of("1")}, 2, ""},
		{"a group below the mount", "/kubepods/pod1/c1", map[string]string{"kubepods/pod1/c1/memory.events": of("1"), "kubepods/pod1/memory.events": of("7")}, 1, ""},
		{"only the group's own count", "/", map[string]string{"memory.events": "low 0\n", "memory.events.local": of("3")}, 3, ""},
		{"none yet", "/", map[string]string{"memory.events": of("0")}, 0, ""},
		{"more than fits", "/", map[string]string{"memory.events": of("99999999999999999999")}, 0, "is not a number"},
		{"no number", "/", map[string]string{"memory.events": of("x")}, 0, "is not a number"},
		{"before Linux 4.13", "/", map[string]string{"memory.events": "low 0\nhigh 0\nmax 0\noom 1\n"}, 0, none},
		{"no memory controller", "/", map[string]string{"cpu.max": "max 100000\n"}, 0, none},
		{"empty", "/", map[string]string{"memory.events": ""}, 0, none},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n, err := FindCgroups(sysfs.New(tree(tt.own, tt.files))).OOMKills()
			if n != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%d, %v; want %d, %q", n, err, tt.want, tt.err)
			}
		})
	}

	// The count grows while a rank runs: read anew each time.
	m := tree("/", map[string]string{"memory.events": of("4")})
	g := FindCgroups(sysfs.New(m))
	before, err := g.OOMKills()
	m["sys/fs/cgroup/memory.events"] = &fstest.MapFile{Data: []byte(of("6"))}
	after, err2 := g.OOMKills()
	if err != nil || err2 != nil || after-before != 2 {
		t.Errorf("%d, then %d: %v, %v", before, after, err, err2)
	}
}

func TestForeignMaskFallsBackToTheRuntime(t *testing.T) {
	machine := fstest.MapFS{"proc/self/status": {Data: []byte("Cpus_allowed_list:\t0-x\n")}}
	inv, err := ReadInventory(sysfs.New(machine))
	if err == nil || !strings.Contains(err.Error(), `/proc/self/status: number list "0-x"`) || inv.CPUs != runtime.NumCPU() {
		t.Errorf("%+v, %v", inv, err)
	}
}

// A user of many groups has a status whose end, where the masks stand, is far from its beginning.
func TestManyGroups(t *testing.T) {
	groups := strings.Repeat("1234567890 ", 1<<16)
	machine := fstest.MapFS{"proc/self/status": {Data: []byte("Groups:\t" + groups + "\nCpus_allowed_list:\t0-15,24\n")},
		"proc/self/cgroup": {Data: []byte("0::/\n")}, "proc/self/mountinfo": {}}
	if inv, err := ReadInventory(sysfs.New(machine)); err != nil || inv.Threads.String() != "0-15,24" {
		t.Errorf("%+v, %v", inv, err)
	}
}

// This machine's own files are understood.
func TestInventoryHere(t *testing.T) {
	root := os.DirFS("/")
	inv, err := ReadInventory(sysfs.New(root))
	if err != nil {
		t.Error(err)
	}
	if inv.CPUs < 1 || inv.CPUs > runtime.NumCPU() || inv.Quota == 0 && inv.CPUs != runtime.NumCPU() || inv.Kernel == "" {
		t.Errorf("%+v, NumCPU %d", inv, runtime.NumCPU())
	}
	if n, err := FindCgroups(sysfs.New(root)).OOMKills(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(n, err)
	}
	t.Logf("%+v %s", inv, inv.Digest())
}

func TestDigest(t *testing.T) {
	a := Inventory{CPUs: 4, Arch: "amd64", Kernel: "6.1"}
	b := a
	if a.Digest() != b.Digest() || len(a.Digest()) != 12 {
		t.Error(a.Digest(), b.Digest())
	}
	seen := map[string]bool{a.Digest(): true}
	for _, change := range []func(*Inventory){
		func(i *Inventory) { i.CPUs++ },
		func(i *Inventory) { i.Threads.Add(3) },
		func(i *Inventory) { i.Quota = 1.5 },
		func(i *Inventory) { i.GPUs = 2 },
		func(i *Inventory) { i.Vendor = "amd" },
		func(i *Inventory) { i.Arch = "arm64" },
		func(i *Inventory) { i.Kernel = "6.2" },
	} {
		c := a
		change(&c)
		if seen[c.Digest()] {
			t.Errorf("%+v has a digest seen before", c)
		}
		seen[c.Digest()] = true
	}
}

func FuzzFiles(f *testing.F) {
	f.Add("0::/x\n", "1 0 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n", "Cpus_allowed_list:\t0-3\n", "50000 100000\n", "oom_kill 2\n")
	f.Add("3:cpu,memory:/a/b\n", "1 0 0:1 /a /c\\040d rw - cgroup cgroup rw,cpu,memory\n", "", "-1", "oom_kill x\n")
	f.Fuzz(func(t *testing.T, membership, mounts, status, max, oom string) {
		defer cost.Watch(t, cost.Parser, len(membership)+len(mounts)+len(status)+len(max)+len(oom))()
		machine := fstest.MapFS{
			"proc/self/cgroup":            {Data: []byte(membership)},
			"proc/self/mountinfo":         {Data: []byte(mounts)},
			"proc/self/status":            {Data: []byte(status)},
			"sys/fs/cgroup/cpu.max":       {Data: []byte(max)},
			"sys/fs/cgroup/x/cpu.max":     {Data: []byte(max)},
			"c d/b/cpu.cfs_quota_us":      {Data: []byte(max)},
			"c d/b/cpu.cfs_period_us":     {Data: []byte(max)},
			"sys/fs/cgroup/memory.events": {Data: []byte(oom)},
			"c d/b/memory.oom_control":    {Data: []byte(oom)},
		}
		inv, _ := ReadInventory(sysfs.New(machine))
		if inv.CPUs < 1 || inv.Quota < 0 {
			t.Fatalf("%+v", inv)
		}
		_, _ = FindCgroups(sysfs.New(machine)).OOMKills()
	})
}
