package attack

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	randv2 "math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

var bin string // the binary under attack

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "mpiup-attack-")
	if bin = os.Getenv("MPIUP_BIN"); err == nil && bin == "" {
		bin = filepath.Join(dir, "mpiup")
		build := exec.Command("go", "build", "-o", bin, "github.com/mpiup/mpiup/cmd/mpiup")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		var out []byte
		if out, err = build.CombinedOutput(); err != nil {
			err = fmt.Errorf("build: %w: %s", err, out)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

const (
	bound = 90 * time.Second // for anything, on a slow and busy machine
	port  = 16748            // the agent's default
)

// address is a loopback address that nobody else is likely to use.
func address() string { return fmt.Sprintf("%s%d", network, nextHost.Add(1)) }

var (
	network  = fmt.Sprintf("127.%d.%d.", 64+randv2.IntN(190), randv2.IntN(256))
	nextHost atomic.Int32
)

// site is a job's certificates.
type site struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, key: newKey(t)}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &s.key.PublicKey, s.key)
	if err == nil {
		s.cert, err = x509.ParseCertificate(der)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// files is a --tls-dir whose certificate says uri.
func (s *site) files(uri string) (dir string) {
	s.t.Helper()
	u, err := url.Parse(uri)
	if err != nil {
		s.t.Fatal(err)
	}
	k := newKey(s.t)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: s.cert.NotBefore, NotAfter: s.cert.NotAfter, URIs: []*url.URL{u},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, s.cert, &k.PublicKey, s.key)
	if err != nil {
		s.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		s.t.Fatal(err)
	}
	dir = s.t.TempDir()
	for name, block := range map[string]*pem.Block{
		"tls.crt": {Type: "CERTIFICATE", Bytes: der},
		"tls.key": {Type: "PRIVATE KEY", Bytes: private},
		"ca.crt":  {Type: "CERTIFICATE", Bytes: s.cert.Raw},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	return dir
}

// text is written by one goroutine and read by another.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (l *text) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *text) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// agent is an agent under attack; it ends with the test.
type agent struct {
	addr string // without port
	pid  int
	log  *text
}

func startAgent(t *testing.T, env []string, args ...string) *agent {
	t.Helper()
	a := &agent{addr: address(), log: &text{}}
	c := exec.Command(bin, append([]string{"agent", "--listen", a.addr, "--name", "w" + strings.ReplaceAll(a.addr, ".", "-")}, args...)...)
	dir := t.TempDir()
	c.Env = append([]string{"PATH=/usr/bin:/bin", "HOME=" + dir, "TMPDIR=" + dir}, env...)
	c.Dir, c.Stdout, c.Stderr = dir, a.log, a.log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	a.pid = c.Process.Pid
	gone := make(chan struct{})
	go func() { defer close(gone); _ = c.Wait() }()
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		select {
		case <-gone:
		case <-time.After(bound):
			t.Errorf("the agent does not end:\n%s", a.log)
			_ = c.Process.Kill()
			<-gone
		}
		if t.Failed() {
			t.Logf("agent:\n%s", a.log)
		}
	})
	eventually(t, "the agent is ready", func() bool { return strings.Contains(a.log.String(), "agent is ready") })
	return a
}

// eventually waits for a condition of another process.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(bound); !ok(); {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("not within %v: %s", bound, what)
		}
	}
}

// ended is what a command came to.
type ended struct {
	code           int
	stdout, stderr string
}

// mpiup runs the binary to its end.
func mpiup(t *testing.T, dir string, env []string, args ...string) ended {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	c := exec.CommandContext(ctx, bin, args...)
	c.Dir, c.Env = dir, append([]string{"PATH=/usr/bin:/bin", "HOME=" + t.TempDir()}, env...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr, c.WaitDelay = &out, &errs, 5*time.Second
	_ = c.Run()
	if ctx.Err() != nil {
		t.Errorf("mpiup %q hangs:\n%s", args, errs.String())
	}
	return ended{c.ProcessState.ExitCode(), out.String(), errs.String()}
}
