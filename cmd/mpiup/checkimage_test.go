package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/agent/reap/program"
	"github.com/mpiup/mpiup/test/elf"
)

// checkedImage runs check-image on this machine.
func checkedImage(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := &process{env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, stdout: f, stderr: f, stdin: os.Stdin}
	code = p.command(append([]string{"check-image"}, args...)...)
	text, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text), code
}

// A program that is not there fails, a warning only where it is asked to, and the JSON has both the facts and the findings.
func TestCheckImage(t *testing.T) {
	out, code := checkedImage(t, "--json", "--program", "/bin/sh")
	var got struct {
		Image struct {
			UID      int
			Protocol string
			Missing  []string
		}
		Verdict string
		Rows    []struct{ Check, Verdict, Text string }
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if code != 0 || got.Image.UID != os.Getuid() || got.Image.Protocol == "" || got.Image.Missing != nil || len(got.Rows) < 6 {
		t.Errorf("ended with %d: %s", code, out)
	}
	if _, strict := checkedImage(t, "--strict"); (got.Verdict == "warn") != (strict == 1) {
		t.Errorf("--strict ended with %d where the verdict is %s", strict, got.Verdict)
	}
	for _, args := range [][]string{{"--program", "/nope"}, {"--", "nope", "-x"}} {
		if out, code := checkedImage(t, args...); code != 1 {
			t.Errorf("%q: %d, %s", args, code, out)
		}
	}
	if out, code := checkedImage(t, "--program", "a", "--", "b"); code != 240 {
		t.Errorf("two programs: %d, %s", code, out)
	}
}

// A program that no kernel here starts fails as it does under mpiup run, for the same reason.
func TestCheckImageSeesWhatRunRefuses(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, tt := range []struct{ name, text, says string }{
		{"foreign", elf.Foreign(), "is built for "},
		{"noloader", elf.WithLoader(at("ld-none.so")), "its loader " + at("ld-none.so") + " is missing"},
		{"foreign-loader", elf.WithLoader(at("foreign")), "its loader " + at("foreign") + " is built for "},
		{"nointerp", "#!" + at("python3") + " -u\n", "its interpreter \"" + at("python3") + "\" is missing"},
		{"crlf", "#!/bin/sh\r\necho\n", "is missing"},
		{"foreign-interp", "#!" + at("foreign") + "\n", "its interpreter \"" + at("foreign") + "\" is built for "},
		{"interp-without-loader", "#!" + at("noloader") + "\n", at("noloader") + "'s loader " + at("ld-none.so") + " is missing"},
		{"nobody-may", "#!" + at("plain") + "\n", "may not be executed"},
		{"text", "echo hello\n", "neither a program (ELF) nor a script"},
		{"empty", "", "is an empty file"},
		{"script", "#!/bin/sh\nexit 0\n", ""},
		{"script-of-script", "#!" + at("script") + "\n", ""},
	} {
		if err := os.WriteFile(at(tt.name), []byte(tt.text), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at("plain"), []byte("#!/bin/sh\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		t.Run(tt.name, func(t *testing.T) {
			out, code := checkedImage(t, "--program", at(tt.name))
			if want := min(len(tt.says), 1); code != want || !strings.Contains(out, tt.says) {
				t.Errorf("ended with %d: %s", code, out)
			}
			err := exec.Command(at(tt.name)).Run()
			if (err == nil) != (tt.says == "") {
				t.Errorf("the kernel says %v", err)
			}
			if err != nil {
				why := program.Explain(at(tt.name), "", nil, nil, program.Errno(err))
				if why == nil || !strings.Contains(why.Error(), tt.says) {
					t.Errorf("mpiup run says %v", why)
				}
			}
		})
	}
}
