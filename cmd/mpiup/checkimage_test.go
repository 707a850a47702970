package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
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
