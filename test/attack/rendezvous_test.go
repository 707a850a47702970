package attack

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/lab"
)

// The endpoint where the torchruns of a job's pods meet is known to everybody on the network. Whoever has no key gets no further than the
// handshake: silent callers in any number, PyTorch's torchrun, frames that are none or endless, a node's own words without TLS. The
// nodes meet all the same, and the log says who came in few lines.
func TestStrangersWhereTorchrunsMeet(t *testing.T) {
	dir := t.TempDir()
	key, name := filepath.Join(dir, "key"), filepath.Join(dir, "torchrun")
	if err := lab.Keygen(bin, key, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(bin, name); err != nil {
		t.Fatal(err)
	}
	const at = "127.0.56.77:29451"
	node := func() *lab.Process {
		cmd := exec.Command(name, "--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d", "--rdzv-endpoint="+at, "--no-python", "sh", "-c", "echo rank $RANK of $WORLD_SIZE")
		cmd.Dir, cmd.Env = dir, []string{"PATH=/usr/bin:/bin", "HOME=" + dir, "MPIUP_KEY=" + key, "MPIUP_REPORTS=" + dir}
		p, err := lab.StartHere(cmd)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); <-p.Done })
		return p
	}
	host := node()
	if err := host.Until(host.Stderr, "1 node here"); err != nil {
		t.Fatal(err)
	}

	call := func(words string) net.Conn {
		conn, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if _, err := io.WriteString(conn, words); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	hello := `{"hello":{"name":"thief","run_id":"bm9uZQ==","least":2,"most":2,"number":-1,"ranks":1,"port":20000,"patience":60}}`
	frame := string(binary.BigEndian.AppendUint32(nil, uint32(len(hello)))) + hello
	for _, words := range []string{
		"mpiup-torchrun/1\n" + frame,
		"mpiup-torchrun/1\n\xff\xff\xff\xff" + strings.Repeat("x", 64<<10),
		"\x00\xce\xf7\x85\x3c\x07",
		"\x01\x19\x00\x00\x00\x00\x00\x00\x00/torch.rendezvous.none",
		"\x16\x03\x01\x40\x00" + strings.Repeat("\x01", 64<<10),
		strings.Repeat("\x00", 64<<10),
		"GET / HTTP/1.1\r\n\r\n",
	} {
		answer, _ := io.ReadAll(io.LimitReader(call(words), 1<<20)) // its end may be a reset
		if strings.Contains(string(answer), "welcome") || strings.Contains(string(answer), "begin") {
			t.Errorf("%.20q is answered %q", words, answer)
		}
	}
	for range 600 { // more than are let wait
		call("")
	}
	for range 100 {
		call("mpiup")
	}

	other := node()
	for i, p := range []*lab.Process{host, other} {
		r := p.Wait(t)
		if r.Code != 0 || r.Stdout != fmt.Sprintf("rank %d of 2\n", i) {
			t.Errorf("node %d ended with %d:\n%s%s", i, r.Code, r.Stdout, r.Stderr)
		}
		if n := strings.Count(r.Stderr, "\n"); n > 20 {
			t.Errorf("node %d tells %d lines:\n%s", i, n, r.Stderr)
		}
	}
}
