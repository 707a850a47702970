package badinput

import (
	"crypto/fips140"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/credential"
	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
)

// weak is a --tls-dir of this authority whose leaf's key FIPS 140-3 does not approve.
func (a authority) weak(t *testing.T, uri string, private, public any) string {
	t.Helper()
	leaf := x509.Certificate{SerialNumber: big.NewInt(3), URIs: []*url.URL{credential.Must(url.Parse(uri))}, NotBefore: time.Now().Add(-day),
		NotAfter: time.Now().Add(day), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}}
	der := credential.Must(x509.CreateCertificate(rand.Reader, &leaf, a.Cert, public, a.Key))
	return a.Dir(t, tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private})
}

// In FIPS 140-3 mode what is not approved is refused with a sentence, by the side that is in that mode: its own
// certificates, those of others, a key exchange that is not approved. What is approved works, with sides that are not.
func TestNotApprovedByFIPS(t *testing.T) {
	need.Program(t, "openssl", "openssl") // this process may be in that mode itself (make fips), and plays none that is not
	ca := newAuthority("ca")
	const launcherURI, agentURI = "mpiup://team/launcher/l", "mpiup://team/agent/a"
	var short *rsa.PrivateKey
	fips140.WithoutEnforcement(func() { short = credential.Must(rsa.GenerateKey(rand.Reader, 1024)) })
	bare, fips := []string{"MPIUP_KEY=", "GODEBUG=fips140=off"}, []string{"MPIUP_KEY=", "GODEBUG=fips140=only"}
	fit, bits1024 := ca.files(t, launcherURI, -day, day, ca), ca.weak(t, launcherURI, short, &short.PublicKey)
	a := startAgent(t, fips, "--http", "off", "--tls-dir", ca.files(t, agentURI, -day, day, ca))
	loose := startAgent(t, bare, "--http", "off", "--tls-dir", ca.weak(t, agentURI, short, &short.PublicKey))
	run := func(env []string, dir, addr string) ended {
		return mpiup(t, env, "run", "--wait", "2", "--host", addr+":1", "--tls-dir", dir, "true")
	}
	run(fips, fit, a.Addr).check(t, 0)
	run(bare, fit, a.Addr).check(t, 0)
	run(fips, bits1024, a.Addr).check(t, 244, "its certificate's key is RSA of 1024 bits, and FIPS 140-3 mode takes only RSA of 2048 bits or more")
	run(bare, bits1024, a.Addr).check(t, 244, "it refuses our certificate")
	run(fips, fit, loose.Addr).check(t, 244, loose.Addr, "its certificate's key is RSA of 1024 bits, and FIPS 140-3 mode takes only")

	out, err := exec.Command("openssl", "s_client", "-connect", net.JoinHostPort(a.Addr, port), "-tls1_3", "-groups", "X25519", "-alpn", "h2").CombinedOutput()
	if err == nil {
		t.Errorf("X25519 alone was taken:\n%s", out)
	}
	for _, says := range []string{"its certificate's key is RSA of 1024 bits, and FIPS 140-3 mode takes only",
		"it offers no cipher or key exchange that we take, in FIPS 140-3 mode"} {
		lab.Eventually(t, "the agent's log says "+says, func() bool { return strings.Contains(a.Log.String(), says) })
	}
}

// A secret of fewer bits than FIPS 140-3 wants of a key (112) is refused in any mode.
func TestShortSecret(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("thirteenbytes"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{"off", "only"} {
		mpiup(t, []string{"MPIUP_KEY=" + file, "GODEBUG=fips140=" + mode}, "run", "--host", "127.0.0.9:1", "true").
			check(t, 244, file, "only 13 bytes, and a key has at least 16")
	}
}
