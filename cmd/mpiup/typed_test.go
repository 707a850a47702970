package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/job"
)

// What a process's session began with is that of its oldest ancestor in it, and nobody's where that cannot be told.
func TestBegan(t *testing.T) {
	for _, tt := range []struct {
		name string
		proc string // "PID PARENT SESSION ENVIRONMENT" each; "-" cannot be read
		want string // "?": unknown
	}{
		{"typed in a shell", "self 7 7 A=2; 7 1 7 A=1; 1 0 1 A=0", "A=1"},
		{"by a command between", "self 8 7 A=2; 8 7 7 A=2; 7 1 7 A=1", "A=1"},
		{"exported by a script, of a shell in a container", "self 9 7 A=3; 9 7 7 A=2; 7 0 7 A=1", "A=1"},
		{"a container's first is its script", "self 9 1 A=3; 9 1 1 A=2; 1 0 1 A=1", "A=1"},
		{"in a session of its own, by a program", "self 8 9 A=3; 8 7 7 A=2; 7 1 7 A=1", "A=2"},
		{"of another user's process", "self 8 8 A=3; 8 1 8 -", "?"},
		{"of a process that another user's began", "self 8 7 A=3; 8 7 7 A=2; 7 1 7 -", "A=2"},
		{"whose parent has ended", "self 1 8 A=3; 1 0 1 A=0", "?"},
		{"a container's first", "self 0 1 A=3", "?"},
		{"by kubectl exec", "self 0 9 A=3; 1 0 1 A=1", "A=1"},
		{"of a shell without environment", "self 8 8 A=3; 8 1 8 ", "?"},
		{"a ring, as numbers are given anew", "self 8 7 A=3; 8 9 7 A=2; 9 8 7 A=1", "A=1 or A=2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			for p := range strings.SplitSeq(tt.proc, "; ") {
				f := strings.SplitN(p, " ", 4)
				pid := f[0]
				if f[0] == "self" {
					pid = "99"
				}
				dir := filepath.Join(root, "proc", f[0])
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				files := map[string]string{"stat": pid + " (a ) b) S " + f[1] + " 5 " + f[2] + " 0 -1", "environ": f[3] + "\x00", "cgroup": "0::/\n"}
				if f[3] == "-" {
					delete(files, "environ")
				} else if f[3] == "" {
					files["environ"] = ""
				}
				for name, text := range files {
					if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			env, known := began(root, "self")
			got := strings.Join(env, " ")
			if !known {
				got = "?"
			}
			if !slices.Contains(strings.Split(tt.want, " or "), got) {
				t.Errorf("it began with %s, not %s", got, tt.want)
			}
		})
	}
}

func TestUnsent(t *testing.T) {
	apps := []job.App{{Env: []string{"GIVEN=1", "ONE=1"}}, {Env: []string{"GIVEN=1"}}}
	own := strings.Fields("GIVEN=1 ONE=1 NCCL_DEBUG=INFO NCCL_TOKEN=t MODE=x OLD=1 OMP_NUM_THREADS=2 CUDA_VERSION=12")
	show := func(since ...string) string {
		var list []string
		for _, v := range unsent(own, apps, since) {
			text := v.Text
			if v.Secret() {
				text += " secret"
			}
			if v.Since {
				text += " since"
			}
			if v.Presence {
				text += " presence"
			}
			list = append(list, text)
		}
		return strings.Join(list, ", ")
	}
	if got := show("GIVEN=1", "ONE=1", "MODE=x"); got != "MODE=x since, ONE=1 since, NCCL_DEBUG=INFO, NCCL_TOKEN=t secret, OMP_NUM_THREADS=2" {
		t.Errorf("unsent are %s", got)
	}
	own = append(own, "KUBERNETES_SERVICE_HOST=10.0.0.1", "API_TOKEN=t", "NODE_NAME=n")
	if got := show("MODE=x"); got != "MODE=x since, NCCL_DEBUG=INFO, NCCL_TOKEN=t secret, OMP_NUM_THREADS=2, API_TOKEN=t secret presence, OLD=1 presence, ONE=1 presence" {
		t.Errorf("of a container unsent are %s", got)
	}
	own = append(own, "MPIUP_RANK=0")
	if got := show("MODE=x"); got != "MODE=x since" {
		t.Errorf("of a rank unsent are %s", got)
	}
}
