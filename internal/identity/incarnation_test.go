package identity

import (
	"os"
	"path/filepath"
	"testing"
)

func tree(t *testing.T, boot, stat string) string {
	t.Helper()
	root := t.TempDir()
	for _, d := range []string{"proc/sys/kernel/random", "proc/self/ns", "proc/1"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write := func(p, s string) {
		if err := os.WriteFile(filepath.Join(root, p), []byte(s), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("proc/sys/kernel/random/boot_id", boot)
	write("proc/1/stat", stat)
	for _, ns := range []string{"pid", "mnt"} {
		if err := os.Symlink(ns+":[4026531836]", filepath.Join(root, "proc/self/ns", ns)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestOneLifeOneName(t *testing.T) {
	const a = "1 (my ) init) S 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 777 1 2"
	const b = "1 (my ) init) S 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 778 1 2"
	base := IncarnationOf(tree(t, "boot-1\n", a), "w0")
	if len(base) != 32 {
		t.Fatalf("%q is not 32 digits", base)
	}
	if got := IncarnationOf(tree(t, "boot-1\n", a), "w0"); got != base {
		t.Errorf("the same container gave %s and %s", base, got)
	}
	for name, other := range map[string]string{
		"restarted":     IncarnationOf(tree(t, "boot-1\n", b), "w0"),
		"machine":       IncarnationOf(tree(t, "boot-2\n", a), "w0"),
		"name":          IncarnationOf(tree(t, "boot-1\n", a), "w1"),
		"no PID 1 stat": IncarnationOf(tree(t, "boot-1\n", ""), "w0"),
	} {
		if other == base {
			t.Errorf("another %s gave the same incarnation", name)
		}
	}
}
