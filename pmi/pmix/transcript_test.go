package pmix_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
	"github.com/mpiup/mpiup/test/golden"
)

// tape is what went over a connection in each direction.
type tape struct {
	mu             sync.Mutex
	client, server bytes.Buffer
}

type recorder struct {
	net.Listener
	tape *tape
}

func (r recorder) Accept() (net.Conn, error) {
	c, err := r.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return recorded{c, r.tape}, nil
}

type recorded struct {
	net.Conn
	tape *tape
}

func (c recorded) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.tape.mu.Lock()
	defer c.tape.mu.Unlock()
	c.tape.client.Write(p[:n])
	return n, err
}

func (c recorded) Write(p []byte) (int, error) {
	c.tape.mu.Lock()
	c.tape.server.Write(p)
	c.tape.mu.Unlock()
	return c.Conn.Write(p)
}

// What real clients sent, as files that -update records with the Open MPI that is there:
//
//	# which client
//	hello HEX
//	TAG HEX -> STATUS      STATUS is "data" for job data and "none" where no answer came
func TestTranscripts(t *testing.T) {
	if golden.Updating() {
		hello := program(t, "hello")
		for _, d := range dialects {
			j := &trial{hosts: 1, perHost: 1, drop: d.drop, env: d.env, tape: &tape{}}
			j.hello(t, j.run(t, hello))
			name := "openmpi-4.1.4-pmix-4.2.2-" + strings.ReplaceAll(d.name, " ", "-") + ".transcript"
			if err := os.WriteFile(filepath.Join("testdata", name), []byte(j.tape.text(t)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	replayAll(t, "testdata/*.transcript", replay)
}

// replayAll replays every file of a pattern, each as a test of its own.
func replayAll(t *testing.T, pattern string, replay func(t *testing.T, text string)) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no %s: %v", pattern, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			replay(t, string(text))
		})
	}
}

func (p *tape) text(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	h, err := bfrops.ReadHello(bytes.NewReader(p.client.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&out, "# libpmix %s, %s, buffers of kind %d\n", h.Version, h.Codec, h.Buffer)
	length := bfrops.HeaderLen + int(p.client.Bytes()[8])
	fmt.Fprintf(&out, "hello %x\n", p.client.Next(length))
	p.server.Next(8)
	answers := map[uint32]string{}
	for p.server.Len() > 0 {
		f, err := bfrops.ReadFrame(&p.server)
		if err != nil {
			t.Fatal(err)
		}
		answers[f.Tag] = statusOf(t, h, f.Payload)
	}
	for p.client.Len() > 0 {
		f, err := bfrops.ReadFrame(&p.client)
		if err != nil {
			t.Fatal(err)
		}
		status, ok := answers[f.Tag]
		if !ok {
			status = "none"
		}
		fmt.Fprintf(&out, "%d %x -> %s\n", f.Tag, f.Payload, status)
	}
	return out.String()
}

// statusOf is the status that an answer begins with; job data begins with the namespace.
func statusOf(t *testing.T, h bfrops.Hello, payload []byte) string {
	d, err := bfrops.Find(h.Codec)
	if err != nil {
		t.Fatal(err)
	}
	desc := h.Buffer == bfrops.FullyDesc
	if bfrops.One[string](bfrops.NewReader(d, desc, payload), bfrops.String) == h.Namespace {
		return "data"
	}
	return fmt.Sprint(bfrops.One[int64](bfrops.NewReader(d, desc, payload), bfrops.Status))
}

// replay plays the client to a server of a job of one rank.
func replay(t *testing.T, text string) {
	var nc net.Conn
	var h bfrops.Hello
	for line := range strings.Lines(text) {
		what, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if what == "#" {
			continue
		}
		data, want, _ := strings.Cut(rest, " -> ")
		b, err := hex.DecodeString(data)
		if err != nil {
			t.Fatal(err)
		}
		if what == "hello" {
			if h, err = bfrops.ReadHello(bytes.NewReader(b)); err != nil {
				t.Fatal(err)
			}
			l := newLabOf(t, h.Namespace, []int{0}, nil)
			defer l.stop()
			nc = l.pipes.dial(t)
			defer nc.Close()
			nc.SetDeadline(time.Now().Add(30 * time.Second))
			nc.Write(b)
			answer := make([]byte, 8)
			if _, err := io.ReadFull(nc, answer); err != nil || !bytes.Equal(answer, make([]byte, 8)) {
				t.Fatalf("answer %x, %v", answer, err)
			}
			continue
		}
		var tag uint32
		fmt.Sscan(what, &tag)
		c := &raw{t, nc}
		c.send(tag, b)
		if want == "none" {
			continue
		}
		f, err := bfrops.ReadFrame(nc)
		if err != nil || f.Tag != tag {
			t.Fatalf("request %d: answer %d, %v", tag, f.Tag, err)
		}
		if got := statusOf(t, h, f.Payload); got != want {
			t.Errorf("request %d: %s, want %s", tag, got, want)
		}
	}
}
