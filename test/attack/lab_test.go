package attack

import (
	"crypto/x509"
	"net/url"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/credential"
	"github.com/mpiup/mpiup/test/lab"
)

var bin string // the binary under attack

func TestMain(m *testing.M) {
	os.Exit(lab.Main(m, func(dir string) (err error) { bin, err = lab.Binary(dir); return err }, nil))
}

const (
	bound = 90 * time.Second // for any command, on a slow and busy machine
	port  = 16748            // the agent's default
)

// site is a job's certificates.
type site struct {
	t *testing.T
	credential.Authority
}

func newSite(t *testing.T) *site { return &site{t, credential.NewAuthority("ca")} }

// files is a --tls-dir whose certificate says uri.
func (s *site) files(uri string) (dir string) {
	s.t.Helper()
	return s.Dir(s.t, s.Issue(x509.Certificate{URIs: []*url.URL{credential.Must(url.Parse(uri))}}))
}

func startAgent(t *testing.T, env []string, args ...string) *lab.Loopback {
	t.Helper()
	return lab.NewLoopback(t, bin, env, args...)
}

// mpiup runs the binary to its end.
func mpiup(t *testing.T, args ...string) lab.Result {
	t.Helper()
	c := exec.Command(bin, args...)
	c.Dir, c.Env = t.TempDir(), []string{"PATH=/usr/bin:/bin", "HOME=" + t.TempDir()}
	return lab.Run(t, bound, c)
}
