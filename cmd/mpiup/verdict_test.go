package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A pod's log each: the rank that failed by itself is named, and not the one that lost it, whose log comes first.
func TestVerdictOfLogs(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	lost := write("w0.log", "2026-01-01T00:00:02Z [rank0]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:598] Connection closed by peer [10.0.0.2]:33969\n")
	own := write("w1.log", strings.Repeat("x", 10_000)+"\n2026-01-01T00:00:01Z [rank5]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
	got := printed(t, "mpiup", "verdict", lost, own)
	for _, want := range []string{"kind:  gpu-out-of-memory\n", "rank:  5; only reported by 0\n", "line:  torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n", "more:  mpiup help gpu-out-of-memory\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
	var v struct {
		Kind, Reporters, Confidence string
		Rank                        *int
	}
	if err := json.Unmarshal([]byte(printed(t, "mpiup", "verdict", "--json", lost)), &v); err != nil || v.Kind != "peer-lost" || v.Rank != nil || v.Reporters != "0" || v.Confidence != "unknown" {
		t.Errorf("%v %+v", err, v)
	}
}

// Standard input is read, and the exit code says that nothing is known.
func TestVerdictOfNothing(t *testing.T) {
	in, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if code := run([]string{"mpiup", "verdict"}, nil, in, out, out); code != 1 {
		t.Errorf("code %d", code)
	}
	if code := run([]string{"mpiup", "verdict", "/nowhere/x.log"}, nil, in, out, out); code != 240 {
		t.Errorf("code %d for a file that is not there", code)
	}
}
