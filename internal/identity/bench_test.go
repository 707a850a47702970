package identity

import (
	"crypto/tls"
	"io"
	"net"
	"testing"

	"github.com/mpiup/mpiup/test/credential"
)

// BenchmarkHandshake is both sides of a handshake over loopback, verification included, for
// each choice of key exchange. See curves.
func BenchmarkHandshake(b *testing.B) {
	ours := member{key: "a", scope: "x"}
	agent, launcher := ours.load(b, RoleAgent, "w"), ours.load(b, RoleLauncher, "l")
	for name, curve := range map[string][]tls.CurveID{"hybrid": {tls.X25519MLKEM768}, "X25519": {tls.X25519}} {
		b.Run(name, func(b *testing.B) {
			server, client := agent.ServerConfig("h2"), launcher.ClientConfig("h2")
			client.CurvePreferences = curve
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				for {
					raw, err := l.Accept()
					if err != nil {
						return
					}
					c := tls.Server(raw, server)
					_, _ = c.Write([]byte("!")) // does the handshake
					c.Close()
				}
			}()
			var bytes int64
			b.ReportAllocs()
			for b.Loop() {
				raw, err := net.Dial("tcp", l.Addr().String())
				if err != nil {
					b.Fatal(err)
				}
				n := &counted{Conn: raw}
				c := tls.Client(n, client)
				if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
					b.Fatal(err)
				}
				c.Close()
				bytes += n.n
			}
			b.ReportMetric(float64(bytes)/float64(b.N), "wire-B/op")
			l.Close()
			<-done
		})
	}
}

type counted struct {
	net.Conn
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.n += int64(n)
	return n, err
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.n += int64(n)
	return n, err
}

func BenchmarkMint(b *testing.B) {
	ours := member{key: "a", scope: "x"}.load(b, RoleAgent, "w")
	s := ours.source.(*sharedSource)
	ours.Prepare()
	for b.Loop() {
		credential.Must(mint(s.keys[0].ca, s.role, s.name, ours.now()))
	}
}

func BenchmarkLoad(b *testing.B) {
	ours := member{key: "a", scope: "x"}
	for b.Loop() {
		ours.load(b, RoleAgent, "w")
	}
}
