package image

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/mpiup/mpiup/agent/checkup"
	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/test/cost"
	"github.com/mpiup/mpiup/test/elf"
	"github.com/mpiup/mpiup/test/golden"
)

// inImage is an image of files by path: "mpiup" and "exe" are programs, what begins with "->" a link, other text a file.
func inImage(files map[string]string) Config {
	m := fstest.MapFS{}
	ours := map[string]bool{}
	for name, text := range files {
		f := &fstest.MapFile{Data: []byte(text), Mode: 0o644}
		switch target, link := strings.CutPrefix(text, "-> "); {
		case link:
			f.Data, f.Mode = []byte(target), fs.ModeSymlink|0o777
		case text == "mpiup", text == "exe":
			f.Mode, f.Data = 0o755, []byte(elf.WithLoader(""))
		}
		ours["/"+name] = text == "mpiup"
		m[name] = f
	}
	return Config{Files: m, Env: []string{"PATH=/opt/mpiup:/usr/bin:/usr/sbin", "HOME=/home/me"}, Dir: "/work", UID: 1000, Version: "v1", Temp: "/tmp/mpiup-1000",
		Names: []string{"mpiexec", "mpirun", "ssh", "sshd"}, Ours: func(file string) bool { return ours[file] }, Write: func(string) error { return nil },
		User: func(int) string { return "me" }, Size: func(string) uint64 { return 64 << 20 }}
}

// A directory that is full of one large .pth file by very many names, or of directories that they name, costs a look no more than its bounds. Only
// Python knows then whether a module is there.
func TestImageOfManySmallThings(t *testing.T) {
	files := map[string]string{"usr/bin/python3": "exe", "usr/lib/python3/os.py": "", "usr/lib/python3/dist-packages/x.py": "", "work/train.py": "import nomodule, torch\n"}
	var paths strings.Builder
	for n := range 3000 {
		fmt.Fprintf(&paths, "/p/%d\n", n)
	}
	for n := range 500 {
		files[fmt.Sprintf("usr/lib/python3/dist-packages/%d.pth", n)] = paths.String()
	}
	c := inImage(files)
	c.Program = []string{"python3", "/work/train.py"}
	cost.AtMost(t, cost.Bound{Fixed: 256 << 20}, 0, func() { Check(c) })
	if _, list := Check(c); !slices.ContainsFunc(list, func(f checkup.Finding) bool { return f.Verdict == checkup.Unknown }) {
		t.Errorf("nothing is said to be unknown: %+v", list)
	}
}

// A pipe that nobody writes to, in the place of each thing that is read, blocks no look.
func TestImageOfPipes(t *testing.T) {
	for _, at := range []string{"work/train.py", "usr/lib/python3/dist-packages", "usr/lib/python3/dist-packages/x.pth", "etc/passwd", "usr/lib/python3/os.py", "usr/bin/python3", "root/.ssh/id_rsa"} {
		t.Run(at, func(t *testing.T) {
			root := t.TempDir()
			for name, text := range map[string]string{"usr/bin/python3": "#!/bin/sh\n", "usr/lib/python3/os.py": "", "work/train.py": "import torch\n"} {
				if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755), os.WriteFile(filepath.Join(root, name), []byte(text), 0o755)); err != nil {
					t.Fatal(err)
				}
			}
			pipe := filepath.Join(root, at)
			_ = os.Remove(pipe) // where it stands
			if err := errors.Join(os.MkdirAll(filepath.Dir(pipe), 0o755), syscall.Mkfifo(pipe, 0o755)); err != nil {
				t.Fatal(err)
			}
			c := inImage(nil)
			c.Files, c.Program = bounded.Tree(root), []string{"python3", "/work/train.py"}
			if _, list := Check(c); len(list) == 0 {
				t.Error("nothing was found")
			}
		})
	}
}

func shown(t *testing.T, name string, c Config) Facts {
	t.Helper()
	image, list := Check(c)
	var b strings.Builder
	for _, f := range list {
		fmt.Fprintf(&b, "%s\t%s\t%s\n", []string{"pass", "warn", "fail", "unknown"}[f.Verdict], f.Name, f.Text)
		if f.Fix != "" {
			fmt.Fprintf(&b, "\t→ %s\n", f.Fix)
		}
		if (f.Verdict == checkup.Warn || f.Verdict == checkup.Fail) && f.Fix == "" {
			t.Errorf("%q says not what to do", f.Text)
		}
	}
	golden.Is(t, "testdata/"+name+".golden", b.String())
	return image
}

func TestImages(t *testing.T) {
	shown(t, "bare", inImage(nil))

	good := shown(t, "good", inImage(map[string]string{"opt/mpiup/mpirun": "mpiup", "opt/mpiup/ssh": "mpiup", "usr/bin/mpirun": "exe", "usr/sbin/sshd": "mpiup",
		"usr/lib/python3.12/site-packages/torch-2.6.0.dist-info/METADATA": "", "opt/conda/lib/python3.11/site-packages/mpi4py-4.0.1.dist-info/METADATA": "",
		"usr/lib/python3.12/site-packages/torchvision-0.2.dist-info/METADATA": "", "etc/ssh/sshd_config": "Port 22\n"}))
	if good.Names["mpirun"] != "/opt/mpiup/mpirun" || !slices.Equal(good.Frameworks, []string{"mpi4py 4.0.1", "torch 2.6.0"}) {
		t.Errorf("%+v", good)
	}

	key := "-----BEGIN OPENSSH PRIVATE KEY-----\nxx\n"
	sick := inImage(map[string]string{"opt/mpiup/mpirun": "exe", "usr/bin/mpirun": "mpiup", "usr/bin/ssh": "mpiup", "usr/sbin/sshd": "exe",
		"etc/ssh/ssh_host_rsa_key": key, "home/me/.ssh/id_rsa": key, "home/me/.ssh/id_rsa.pub": "ssh-rsa AAAA me\n", "root/.ssh/config": "Host *\n", "tmp/mpiup-1000/x": ""})
	sick.UID, sick.Program = 0, []string{"./train"}
	sick.Write = func(dir string) error {
		if dir == "/dev/shm" {
			return nil
		}
		return errors.New("read-only file system")
	}
	sick.Watch = errors.New("there is no libmpiup-watch.so beside mpiup")
	shown(t, "sick", sick)

	nameless := inImage(map[string]string{"work/train": "exe"})
	nameless.User, nameless.Program = func(int) string { return "" }, []string{"/work/train"}
	if image := shown(t, "nameless", nameless); image.Protocol != "PMI-1" {
		t.Errorf("%+v", image)
	}
}

// This machine's own programs: what the compiler links is found.
func TestThisMachine(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := inImage(nil)
	c.Files, c.Program = os.DirFS("/"), []string{exe}
	image, list := Check(c)
	if len(image.Missing) > 0 || slices.ContainsFunc(list, func(f checkup.Finding) bool { return f.Name == "program" && f.Verdict != checkup.Pass }) {
		t.Errorf("%+v, %+v", image, list)
	}
	c.Program = []string{filepath.Join(t.TempDir(), "none")}
	if _, list := Check(c); !slices.ContainsFunc(list, func(f checkup.Finding) bool { return f.Name == "program" && f.Verdict == checkup.Fail }) {
		t.Errorf("%+v", list)
	}
}

// What a shell is to read may be this process's own input or a pipe: nothing is taken of it, or waited for.
func TestNoScriptIsRead(t *testing.T) {
	c := inImage(map[string]string{"usr/bin/bash": "exe", "dev/stdin": "echo"})
	c.Files, c.Program = piped{c.Files.(fstest.MapFS), t}, []string{"bash", "/dev/stdin"}
	_, list := Check(c)
	if !slices.ContainsFunc(list, func(f checkup.Finding) bool { return f.Name == "script" && f.Verdict == checkup.Pass }) {
		t.Errorf("%+v", list)
	}
}

// piped is files of which one may not be read.
type piped struct {
	fstest.MapFS
	t *testing.T
}

func (p piped) Open(name string) (fs.File, error) {
	f, err := p.MapFS.Open(name)
	if name == "dev/stdin" {
		return input{f, p.t}, err
	}
	return f, err
}

type input struct {
	fs.File
	t *testing.T
}

func (i input) Read([]byte) (int, error) {
	i.t.Error("it is read")
	return 0, io.EOF
}

// What a command runs beyond its first word is followed as far as files tell it, and what they do not tell is said not to be checked.
func TestFollow(t *testing.T) {
	files := map[string]string{"usr/bin/env": "exe", "usr/bin/nice": "exe", "usr/bin/bash": "exe", "usr/bin/python3": "-> python3.11", "usr/bin/python3.11": "exe",
		"usr/bin/strace": "exe", "usr/bin/timeout": "exe", "usr/lib/python3.11/os.py": "", "usr/lib/python3.11/json/__init__.py": "",
		"usr/lib/python3.11/json/tool.py": "", "usr/lib/python3/dist-packages/mpi4py/__init__.py": "", "usr/lib/python3/dist-packages/mpi4py/__main__.py": "",
		"usr/lib/python3/dist-packages/more.pth": "/opt/more\n", "opt/more/extra.py": "", "opt/conda/bin/python3": "exe",
		"opt/conda/lib/python3.12/os.py": "", "opt/conda/lib/python3.12/site-packages/torch/__init__.py": "",
		"opt/conda/lib/python3.12/site-packages/x.pth": "import x\n", "work/train.py": "import os, torch\nfrom mpi4py import MPI\n",
		"work/path.py": "import sys\nsys.path.append('/data')\nimport torch\n", "work/run.sh": "python3 train.py\n", "work/pkg/__main__.py": "",
		"work/shim/python3": "#!/usr/bin/env bash\nexec x\n", "work/late.py": "try:\n    import torch\nexcept ImportError:\n    pass\n"}
	var b strings.Builder
	for _, line := range []string{"python3 train.py", "python3 /none.py", "python3 -u -W ignore late.py", "python3 path.py", "/opt/conda/bin/python3 train.py",
		"python3 pkg", "python3 /work", "python3 -m json.tool", "python3 -um mpi4py -x", "python3 -m json", "python3 -m nomodule", "python3 -I -m nomodule",
		"python3 -m extra", "/opt/conda/bin/python3 -m nomodule", "python3 -m torch.distributed.run x.py", "python3 -c import\ttorch;print(1)", "python3", "python3 - x",
		"./shim/python3 late.py", "./shim/python3 /none.py", "env -u A X=1 nice -n 5 python3 none.py", "env -C / python3 train.py", "env --what python3",
		"env PATH=/nowhere python3 train.py", "nice --adjustment 5 nosuch", "timeout -k 5 60 none", "timeout 5", "bash -c nocommand", "bash -c cd\t/x",
		"bash -c python3\tnone.py", "bash none.sh", "bash run.sh", "./train.py", "strace -f python3 train.py"} {
		c := inImage(files)
		for _, exe := range []string{"work/shim/python3"} {
			c.Files.(fstest.MapFS)[exe].Mode = 0o755
		}
		for _, word := range strings.Fields(line) {
			c.Program = append(c.Program, strings.ReplaceAll(word, "\t", " "))
		}
		if before, after, ok := strings.Cut(line, " -c "); ok {
			c.Program = []string{before, "-c", strings.ReplaceAll(after, "\t", " ")}
		}
		fmt.Fprintf(&b, "%s\n", line)
		_, list := Check(c)
		for _, f := range list {
			if slices.Contains([]string{"program", "script", "module", "imports", "not checked"}, f.Name) && !strings.HasPrefix(f.Text, "ranks get") {
				fmt.Fprintf(&b, "\t%s\t%s\t%s\n", []string{"pass", "warn", "fail", "unknown"}[f.Verdict], f.Name, f.Text)
			}
		}
	}
	golden.Is(t, "testdata/follow.golden", b.String())
}
