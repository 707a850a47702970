package pmi_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/pmi"
	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/test/cost"
)

// pieces gives its parts one Read each.
type pieces struct{ parts []string }

func (p *pieces) Read(b []byte) (int, error) {
	for len(p.parts) > 0 && p.parts[0] == "" {
		p.parts = p.parts[1:]
	}
	if len(p.parts) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.parts[0])
	p.parts[0] = p.parts[0][n:]
	return n, nil
}

// readAll is everything that read finds, and how it ended.
func readAll(read func(*bufio.Reader) (*pmi.Message, error), parts ...string) string {
	var out strings.Builder
	r := bufio.NewReaderSize(&pieces{parts}, 16)
	for {
		m, err := read(r)
		if err != nil {
			fmt.Fprintf(&out, "%v", err)
			return out.String()
		}
		fmt.Fprintf(&out, "%q %q\n", m.Name, m.Pairs)
	}
}

// The same input in one piece and in two must read the same, wherever it is cut.
func TestInputInTwoPieces(t *testing.T) {
	v1, v2 := requests(t)
	v1 = append(v1, "mcmd=spawn\nnprocs=2\nexecname=a b\narg1=x\ny\n\nz\ntotspawns=1\nspawnssofar=1\nendcmd\ncmd=get_appnum\n")
	for _, dialect := range []struct {
		read   func(*bufio.Reader) (*pmi.Message, error)
		inputs []string
	}{{pmi.ReadPMI1, v1}, {pmi.ReadPMI2, v2}} {
		for _, in := range dialect.inputs {
			want := readAll(dialect.read, in)
			for i := range in {
				if got := readAll(dialect.read, in[:i], in[i:]); got != want {
					t.Fatalf("%q cut at %d:\n%s\nwant\n%s", in, i, got, want)
				}
			}
		}
	}
}

func fuzzReader(f *testing.F, seeds []string, read func(*bufio.Reader) (*pmi.Message, error), write func([]byte, *pmi.Message) []byte) {
	for _, s := range seeds {
		f.Add(s, len(s)/2)
	}
	f.Fuzz(func(t *testing.T, in string, cut int) {
		defer cost.Watch(t, cost.Parser, len(in))()
		cut = min(max(cut, 0), len(in))
		want := readAll(read, in)
		if got := readAll(read, in[:cut], in[cut:]); got != want {
			t.Errorf("cut at %d:\n%s\nwant\n%s", cut, got, want)
		}
		if m, err := read(bufio.NewReader(strings.NewReader(in))); err == nil {
			write(nil, m)
		}
	})
}

func FuzzPMI1(f *testing.F) {
	v1, _ := requests(f)
	fuzzReader(f, append(v1, "mcmd=spawn\nnprocs=2\ntotspawns=1\nspawnssofar=1\nendcmd\n"), pmi.ReadPMI1, pmi.AppendPMI1)
}

func FuzzPMI2(f *testing.F) {
	_, v2 := requests(f)
	fuzzReader(f, append(v2, "    10cmd=a;b=;;"), pmi.ReadPMI2, pmi.AppendPMI2)
}

// Whatever a lone rank sends, Serve ends when it hangs up, and its replies can be read by the
// clients of the dialect.
func FuzzServe(f *testing.F) {
	v1, v2 := requests(f)
	f.Add(strings.Join(v1, ""))
	f.Add("cmd=init pmi_version=2 pmi_subversion=0\n" + strings.Join(v2, ""))
	f.Add("cmd=init pmi_version=1 pmi_subversion=1\ncmd=put key=a value=" + strings.Repeat("v", 1000) + "\ncmd=get key=a\n")
	f.Fuzz(func(t *testing.T, in string) {
		defer cost.Watch(t, cost.Parser, len(in))()
		space, err := kvs.New(kvs.Run{}).Add(kvs.Job{KVSName: "m0-7f3a", Size: 1, Local: []int{0}})
		if err != nil {
			t.Fatal(err)
		}
		defer space.Close(nil)
		client, server := net.Pipe()
		go func() {
			io.Copy(client, strings.NewReader(in))
			client.Close()
		}()
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			r := bufio.NewReader(client)
			for {
				c, err := r.Peek(1)
				if err != nil {
					return
				}
				if c[0] == ' ' {
					_, err = pmi.ReadPMI2(r)
				} else {
					_, err = pmi.ReadPMI1(r)
				}
				if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF && err != io.ErrClosedPipe {
					t.Errorf("a reply that cannot be read: %v", err)
					io.Copy(io.Discard, r)
				}
			}
		}()
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, fmt.Errorf("Serve hangs"))
		defer cancel()
		job := pmi.Job{Space: space, Spawn: func(_ context.Context, r job.Spawn) (int, error) {
			if err := r.Check(); err != nil {
				t.Errorf("asked to spawn what nobody can: %v", err)
			}
			return 1, nil
		}}
		_ = pmi.New(job).Serve(ctx, server, 0)
		server.Close()
		<-drained
		if ctx.Err() != nil {
			t.Error(context.Cause(ctx))
		}
	})
}
