package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/netns"
)

// What does not become right by waiting ends a run within 20 s, in words for users, of which the last
// say what the waiting lines said.
func TestWhatWaitingDoesNotCure(t *testing.T) {
	t.Parallel()
	l := hosted(t).apart(t, netns.Config{Hosts: []string{"w0", "w1", "w2"}})
	for _, h := range []string{"w0", "w1"} {
		l.agent(t, h, container{})
	}
	undo, err := l.cluster.CutOneWay(netns.Launcher, "w1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := undo(); err != nil {
			t.Error(err)
		}
	})
	other := filepath.Join(l.folder(t), "key")
	if err := os.WriteFile(other, []byte(l.mpiup(t, "keygen").OK(t).Stdout), 0o644); err != nil {
		t.Fatal(err)
	}
	resolv := filepath.Join(l.folder(t), "resolv.conf")
	if err := os.WriteFile(resolv, []byte("nameserver 192.0.2.1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	addr := func(host string) string { return l.cluster.Addr(host).String() + ":16748" }
	for _, tt := range []struct {
		name   string
		argv   []string
		code   int
		stderr []string
	}{
		// The key is a person's, and on no volume to which another may come.
		{"another job's key", []string{"env", "HOME=" + filepath.Dir(other), l.bin, "run", "--key", other, "--host", "w0", "-n", "1", "true"}, 244,
			[]string{"waiting for 1 of 1 host (2s, 4m5", "left): TLS refused: w0 (" + addr("w0") + ": it holds the secret of another job",
				"mpiup: host w0: " + addr("w0") + ": it holds the secret of another job", "no longer waited for"}},
		{"no secret", []string{l.bin, "run", "--insecure", "--host", "w0", "-n", "1", "true"}, 244,
			[]string{"mpiup: host w0: it is at " + l.cluster.Addr("w0").String() + ", and --insecure reaches agents on this machine's loopback addresses only"}},
		{"a host that swallows packets", []string{l.bin, "run", "--key", l.key, "--host", "w0,w1", "-n", "2", "true"}, 243,
			[]string{": no answer on port 16748: w1", "mpiup: host w1: " + addr("w1") + ": no answer: a firewall", "no longer waited for"}},
		{"more ranks than a host starts", []string{l.bin, "run", "--key", l.key, "--host", "w0", "-n", "99999", "true"}, 240,
			[]string{"mpiup: 99999 ranks on host w0 are too many, since a host starts 4096 at most"}},
		{"more ranks than this host starts", []string{l.bin, "run", "--local", "-n", "99999", "true"}, 240, []string{"a host starts 4096 at most"}},
		{"nobody listens", []string{l.bin, "run", "--key", l.key, "--host", "w2", "-n", "1", "--wait", "4", "true"}, 243,
			[]string{"waiting for 1 of 1 host (2s, ", "s left): connection refused on port 16748: w2", "mpiup: host w2: " + addr("w2") + ": connection refused", "waited 4s (--wait)"}},
		{"no way to DNS", []string{"unshare", "-m", "sh", "-c", `mount --bind ` + resolv + ` "$(readlink -f /etc/resolv.conf)"; exec "$@"`, "sh",
			l.bin, "run", "--key", l.key, "--host", "nobody", "-n", "1", "--wait", "4", "true"}, 242,
			[]string{"no answer from DNS: nobody", "mpiup: host nobody: no answer from DNS: DNS server 192.0.2.1:53: it cannot be reached over UDP (network is unreachable)"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			begun := time.Now()
			r := l.command(t, job{}, tt.argv...).Wait(t)
			r.Fails(t, tt.code, tt.stderr...)
			if took := time.Since(begun); took > 25*time.Second { // 20, and a slow machine
				t.Errorf("it took %v", took)
			}
			for _, word := range []string{"dial ", "i/o timeout", "lookup ", "read udp", "EOF", "context "} {
				if strings.Contains(r.Stderr, word) {
					t.Errorf("it says %q:\n%s", word, r.Stderr)
				}
			}
		})
	}
}
