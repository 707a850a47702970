package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestEntered(t *testing.T) {
	const container, other = "0::/\n", "0::/../5f0c\n"
	for _, test := range []struct {
		name string
		proc map[string]string
		want bool
	}{
		{"the container's own command", map[string]string{"self": "1 (mpiup) S 0 1", "1": "1 (mpiup) S 0 1"}, false},
		{"a child of its shell", map[string]string{"self": "9 (mpiup) S 7 9", "7": "7 (a ) sh) S 1 1", "1": "1 (sh) S 0 1"}, false},
		{"kubectl exec", map[string]string{"self": "9 (mpiup) S 0 9", "1": "1 (sh) S 0 1"}, true},
		{"a child of kubectl exec's shell", map[string]string{"self": "9 (mpiup) S 7 9", "7": "7 (a ) 1 sh) S 0 7", "1": "1 (sh) S 0 1"}, true},
		{"a pod's containers that share processes", map[string]string{"self": "9 (mpiup) S 0 9", "1": "1 (pause) S 0 1", "1/cgroup": other}, false},
		{"PID 1 is hidden", map[string]string{"self": "9 (mpiup) S 0 9"}, false},
		{"a parent is hidden", map[string]string{"self": "9 (mpiup) S 7 9", "1": "1 (sh) S 0 1"}, false},
		{"a number that is given anew", map[string]string{"self": "9 (mpiup) S 7 9", "7": "7 (sh) S 8 7", "8": "8 (sh) S 7 8", "1": "1 (sh) S 0 1"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			for pid, stat := range test.proc {
				if pid == "1/cgroup" {
					continue
				}
				dir := filepath.Join(root, "proc", pid)
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				group := container
				if other := test.proc[pid+"/cgroup"]; other != "" {
					group = other
				}
				for name, text := range map[string]string{"stat": stat + " 0 0\n", "cgroup": group} {
					if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			if got := entered(root); got != test.want {
				t.Errorf("entered: %v, want %v", got, test.want)
			}
		})
	}
}
