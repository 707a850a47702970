package integration

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"testing"
)

func noise(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(b)
	return b
}

func TestStdinGoesTo(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	counts := []string{"sh", "-c", `echo "$MPIUP_RANK $(wc -c)"`}
	for _, c := range []struct {
		flag string
		want []string
	}{
		{"", []string{"0 6", "1 0", "2 0"}},
		{"2", []string{"0 0", "1 0", "2 6"}},
		{"all", []string{"0 6", "1 6", "2 6"}},
		{"none", []string{"0 0", "1 0", "2 0"}},
	} {
		t.Run("to "+c.flag, func(t *testing.T) {
			t.Parallel()
			var flags []string
			if c.flag != "" {
				flags = []string{"--stdin", c.flag}
			}
			r := l.run(t, job{hosts: "w0:1,w1:1,w2:1", stdin: strings.NewReader("hello\n"), args: append(flags, counts...)}).OK(t)
			if got := strings.Join(sorted(r.Stdout), ","); got != strings.Join(c.want, ",") {
				t.Errorf("ranks read %s, not %v", got, c.want)
			}
		})
	}
	l.run(t, job{hosts: "w0:1", stdin: strings.NewReader(""), args: []string{"--stdin", "1", "cat"}}).Fails(t, 240, "1")
}

func TestStdinOf10MB(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	data := noise(10 << 20)
	sum := sha256.Sum256(data)
	want := hex.EncodeToString(sum[:])
	for _, who := range []string{"1", "all"} {
		r := l.run(t, job{hosts: "w0:1,w1:1", stdin: bytes.NewReader(data), args: []string{"--stdin", who, "sha256sum"}}).OK(t)
		n := strings.Count(r.Stdout, want)
		if who == "1" && n != 1 || who == "all" && n != 2 {
			t.Errorf("--stdin %s: printed\n%s, the sum is %s", who, r.Stdout, want)
		}
	}
}

// A rank that ends, or closes its standard input, while the launcher still has some to give.
func TestStdinNotRead(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	data := noise(10 << 20)
	for _, script := range []string{"exit 0", "exec <&-; echo closed", "head -c 5 >/dev/null"} {
		l.run(t, job{hosts: "w0:1", stdin: bytes.NewReader(data), args: []string{"sh", "-c", script}}).OK(t)
	}
}
