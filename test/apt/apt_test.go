// Package apt has apt.sh, by which scripts install Debian's packages on this machine, and its test.
package apt

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// locked is an apt-get that finds a lock held so many times, and then ends with a code.
func locked(t *testing.T, times, code, says string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	script := "#!/bin/sh\necho \"$@\" >>" + dir + "/asked\n" +
		"if [ $(wc -l <" + dir + "/asked) -le " + times + " ]; then echo 'E: " + says + "' >&2; exit 100; fi\necho installed; exit " + code + "\n"
	for name, text := range map[string]string{"apt-get": script, "sleep": "#!/bin/sh\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A lock of another apt's is waited for, whichever it is; what fails for another reason fails at once.
func TestApt(t *testing.T) {
	for _, tt := range []struct {
		name, times, code, says, wait string
		asked, ends                   int
		want                          string
	}{
		{name: "free", times: "0", code: "0", asked: 1, want: "installed"},
		{name: "lists are locked", times: "2", code: "0", says: "Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)", asked: 3, want: "installed"},
		{name: "dpkg is locked", times: "1", code: "0", says: "Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is another process using it?", asked: 2, want: "installed"},
		{name: "no such package", times: "9", code: "0", says: "Unable to locate package x", asked: 1, ends: 100, want: "Unable to locate package x"},
		{name: "it fails after a lock", times: "1", code: "3", says: "Unable to lock directory /var/cache/apt/archives/", asked: 2, ends: 3, want: "installed"},
		{name: "for ever", times: "99", code: "0", says: "Could not get lock /var/lib/apt/lists/lock", wait: "0", asked: 1, ends: 100, want: "another apt has held its lock for 0 s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := locked(t, tt.times, tt.code, tt.says)
			cmd := exec.Command("./apt.sh", "install", "-y", "x")
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
			if tt.wait != "" {
				cmd.Env = append(cmd.Env, "APT_WAIT="+tt.wait)
			}
			out, _ := cmd.CombinedOutput() // its code is compared
			asked, err := os.ReadFile(filepath.Join(dir, "asked"))
			if err != nil {
				t.Fatal(err)
			}
			if got := cmd.ProcessState.ExitCode(); got != tt.ends || !strings.Contains(string(out), tt.want) || strings.Count(string(asked), "\n") != tt.asked {
				t.Errorf("code %d after %d questions, want %d after %d, and %q:\n%s", got, strings.Count(string(asked), "\n"), tt.ends, tt.asked, tt.want, out)
			}
			if !strings.Contains(string(asked), " install -y x\n") || !strings.Contains(string(asked), "DPkg::Lock::Timeout=") {
				t.Errorf("asked was %s", asked)
			}
		})
	}
}

// No script installs on this machine but by apt.sh. In a tree of its own (chroot, in_tree) nobody else is.
func TestScriptsWait(t *testing.T) {
	seen := 0
	err := filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".sh" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		seen++
		for line := range strings.Lines(string(text)) {
			code, _, _ := strings.Cut(line, "#")
			for _, word := range []string{"apt-get install", "apt-get update"} {
				own := strings.Contains(line, "chroot") || strings.Contains(line, "in_tree") || strings.Contains(line, "echo") || strings.Contains(line, "$d/")
				if strings.Contains(code, word) && !own {
					t.Errorf("%s: %s does not wait for another apt's lock: write test/apt/apt.sh", path, strings.TrimSpace(line))
				}
			}
		}
		return nil
	})
	if err != nil || seen < 20 {
		t.Errorf("%d scripts are read: %v", seen, err)
	}
}
