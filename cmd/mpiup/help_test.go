package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/docs"
	"github.com/mpiup/mpiup/internal/job"
)

// printed calls the binary with argv and returns what it wrote to standard output.
func printed(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "stdout"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if code := run(argv, []string{"PATH=/usr/bin:/bin"}, nil, out, out); code != 0 {
		t.Errorf("%q: code %d", argv, code)
	}
	text, err := io.ReadAll(io.NewSectionReader(out, 0, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Every command has examples, fits on a screen with -h, and stands in mpiup's own help as every topic does; stand-ins are one line.
func TestHelpOfEveryCommand(t *testing.T) {
	all := printed(t, "mpiup", "--help")
	for _, c := range rootCommand(&process{}, "").Commands() {
		if c.Hidden || c.Name() == "help" {
			continue
		}
		if stands := standsIn[c.Name()]; !stands && c.Name() != "completion" && c.Name() != "version" && !strings.Contains(all, "\n  "+c.Name()+" ") || !strings.Contains(all, c.Name()) {
			t.Errorf("mpiup --help does not list %s", c.Name())
		}
		if c.Name() == "completion" {
			continue
		}
		help := printed(t, "mpiup", c.Name(), "--help")
		if !strings.Contains(help, "Examples:\n  ") || !strings.Contains(help, "Usage:\n  ") {
			t.Errorf("mpiup %s --help has no examples:\n%s", c.Name(), help)
		}
		if standsIn[c.Name()] {
			continue
		}
		short := printed(t, "mpiup", c.Name(), "-h")
		if n := strings.Count(short, "\n"); n > 45 || n < 5 {
			t.Errorf("mpiup %s -h has %d lines", c.Name(), n)
		}
	}
	topics := printed(t, "mpiup", "help", "topics")
	for _, page := range docs.Pages() {
		if !strings.Contains(all, page.Name) || !strings.Contains(topics, page.Name+" ") {
			t.Errorf("mpiup --help or mpiup help topics does not name the topic %s", page.Name)
		}
		text := printed(t, "mpiup", "help", page.Name)
		for line := range strings.Lines(text) {
			if strings.Contains(line, "<!--") || strings.Contains(line, "](") || strings.HasPrefix(line, "|") {
				t.Errorf("mpiup help %s shows Markdown: %s", page.Name, line)
			}
		}
		if !strings.Contains(text, strings.ReplaceAll(page.Title, "`", "")+"\n") {
			t.Errorf("mpiup help %s lacks its title", page.Name)
		}
	}
}

var standsIn = map[string]bool{"ssh": true, "sshd": true, "ssh-keygen": true, "mpirun": true, "mpiexec": true, "torchrun": true, "horovodrun": true}

// With -h mpiup run shows what most people need, with --help all but 18 flags that few do, with --all these too.
func TestExtentsOfHelp(t *testing.T) {
	short, long, whole := printed(t, "mpiup", "run", "-h"), printed(t, "mpiup", "run", "--help"), printed(t, "mpiup", "run", "--help", "--all")
	for text, has := range map[string]map[string]bool{
		short: {"--timeout": true, "--stall-timeout": false, "--nccl": false, "all ": true},
		long:  {"--timeout": true, "--on-stall": true, "--nccl PARTS": false, "--pty": false, "18 flags that are rarely used": true},
		whole: {"--timeout": true, "--on-stall": true, "--nccl PARTS": true, "--pty": true, "rarely used": false},
	} {
		for word, want := range has {
			if strings.Contains(text, word) != want {
				t.Errorf("%q: %v, want %v in\n%s", word, !want, want, text)
			}
		}
	}
	if one := printed(t, "mpiup", "help", "run", "--nccl"); !strings.HasPrefix(one, "      --nccl PARTS   ") || strings.Count(one, "\n") > 3 {
		t.Errorf("%q", one)
	}
	if _, text := said(t, "mpiup", "help", "run", "--bogus"); !strings.Contains(text, `"run" has no flag "--bogus"`) {
		t.Error(text)
	}
}

// What people type who come from elsewhere is answered by what to type here.
func TestWhatOthersType(t *testing.T) {
	for line, says := range map[string]string{
		"mpiup train.py": "mpiup run -n N python3 train.py", "mpiup status": "mpiup ps --watch", "mpiup kill": "Ctrl-C",
		"mpiup run --time 60 a": "--timeout 60m", "mpiup run -t 60 a": "--timeout 60m", "mpiup run -o x a": "--output-dir out", "mpiup run --gres=gpu:1 a": "--gpus-per-rank 1",
		"mpiup run -m train": "python3 -m package.train", "mpiup run --log-dir x a": "--output-dir logs", "mpiup ps x": "ps takes no such word",
		"mpirun --ntasks 2 a": "for srun's mpiup run has: -n 16", "torchrun --ntasks 2 a": "for srun's mpiup run has: -n 16", "horovodrun --ntasks 2 a": "-n 16",
	} {
		if code, text := said(t, strings.Fields(line)...); code != job.ExitUsage || !strings.Contains(text, says) {
			t.Errorf("%s: %d, %s", line, code, text)
		}
	}
}
