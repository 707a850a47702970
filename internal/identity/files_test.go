package identity

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/cost"

	"github.com/mpiup/mpiup/test/credential"
)

type testCA struct{ credential.Authority }

func newCA(cn string) testCA { return testCA{credential.NewAuthority(cn)} }

func (ca testCA) pem() []byte { return credential.PEM("CERTIFICATE", ca.Cert.Raw) }

// leafSpec is what a certificate says; zero dates are those of hours around now, nil uses are both.
type leafSpec struct {
	uris             []string
	ou, o, cn, dns   string
	notBefore, until time.Time
	uses             []x509.ExtKeyUsage
}

func (ca testCA) issue(s leafSpec) tls.Certificate {
	what := x509.Certificate{Subject: pkix.Name{CommonName: s.cn}, NotBefore: s.notBefore, NotAfter: s.until, ExtKeyUsage: s.uses}
	if s.ou != "" {
		what.Subject.OrganizationalUnit = []string{s.ou}
	}
	if s.o != "" {
		what.Subject.Organization = []string{s.o}
	}
	if s.dns != "" {
		what.DNSNames = []string{s.dns}
	}
	for _, u := range s.uris {
		what.URIs = append(what.URIs, credential.Must(url.Parse(u)))
	}
	return ca.Issue(what)
}

// put writes a Secret's files as the kubelet does, replacing the last with one rename.
func (ca testCA) put(t testing.TB, dir string, c tls.Certificate) {
	t.Helper()
	gen := credential.Must(os.MkdirTemp(dir, "..gen"))
	write(t, gen+"/tls.crt", credential.PEM("CERTIFICATE", c.Certificate[0]))
	write(t, gen+"/tls.key", credential.PEM("EC PRIVATE KEY", credential.Must(x509.MarshalECPrivateKey(c.PrivateKey.(*ecdsa.PrivateKey)))))
	write(t, gen+"/ca.crt", ca.pem())
	for _, step := range []error{os.Symlink(gen, dir+"/..tmp"), os.Rename(dir+"/..tmp", dir+"/..data")} {
		if step != nil {
			t.Fatal(step)
		}
	}
	for _, n := range []string{"tls.crt", "tls.key", "ca.crt"} {
		if err := os.Symlink("..data/"+n, dir+"/"+n); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
}

func (ca testCA) load(t testing.TB, role Role, s leafSpec) (*Identity, string, error) {
	t.Helper()
	dir := t.TempDir()
	ca.put(t, dir, ca.issue(s))
	i, err := Load(Options{TLSDir: dir, Role: role, Root: t.TempDir()})
	return i, dir, err
}

func TestCertificateNames(t *testing.T) {
	ca := newCA("ca")
	for _, tt := range []struct {
		name string
		spec leafSpec
		want Peer
		err  string
	}{
		{name: "mpiup", spec: leafSpec{uris: []string{"mpiup://pi.team-a/launcher/pi-launcher"}},
			want: Peer{Name: "pi-launcher", Role: RoleLauncher, group: "mpiup://pi.team-a"}},
		{name: "mpiup among others", spec: leafSpec{uris: []string{"https://x/y", "mpiup://g/agent/w"}},
			want: Peer{Name: "w", Role: RoleAgent, group: "mpiup://g"}},
		{name: "both roles", spec: leafSpec{uris: []string{"mpiup://g/agent/w", "mpiup://g/launcher/w"}},
			want: Peer{Name: "w", Role: RoleAgent, Also: RoleLauncher, group: "mpiup://g"}},
		{name: "spiffe, last part", spec: leafSpec{uris: []string{"spiffe://td/ns/a/sa/launcher"}, dns: "pi-launcher"},
			want: Peer{Name: "pi-launcher", Role: RoleLauncher, group: "spiffe://td/ns/a/sa"}},
		{name: "spiffe, with name", spec: leafSpec{uris: []string{"spiffe://td/job/agent/w0"}},
			want: Peer{Name: "w0", Role: RoleAgent, group: "spiffe://td/job"}},
		{name: "spiffe, service account", spec: leafSpec{uris: []string{"spiffe://td/ns/a/sa/pi-agent"}, cn: "w0"},
			want: Peer{Name: "w0", Role: RoleAgent, group: "spiffe://td/ns/a/sa"}},
		{name: "OU", spec: leafSpec{ou: "mpiup-agent", o: "mpiup://g", cn: "w0"}, want: Peer{Name: "w0", Role: RoleAgent, group: "O=mpiup://g"}},
		{name: "URI before OU", spec: leafSpec{uris: []string{"mpiup://g/agent/w"}, ou: "mpiup-launcher"},
			want: Peer{Name: "w", Role: RoleAgent, group: "mpiup://g"}},
		{name: "no role", spec: leafSpec{cn: "w0", dns: "w0"}, err: "names no role"},
		{name: "other role", spec: leafSpec{uris: []string{"mpiup://g/admin/w"}}, err: "names no role"},
		{name: "no group", spec: leafSpec{uris: []string{"mpiup:///agent/w"}}, err: "names no role"},
		{name: "derived leaf's URI", spec: leafSpec{uris: []string{"mpiup-shared:launcher/l"}}, err: "names no role"},
		{name: "spiffe, name of the second role", spec: leafSpec{uris: []string{"spiffe://td/job/launcher", "spiffe://td/job/agent/w0"}},
			want: Peer{Name: "w0", Role: RoleLauncher, Also: RoleAgent, group: "spiffe://td/job"}},
		{name: "spiffe, which role", spec: leafSpec{uris: []string{"spiffe://td/job/launcher/agent"}}, err: "names no role"},
		{name: "no name", spec: leafSpec{uris: []string{"spiffe://td/agent"}}, err: "names no host"},
		{name: "control characters", spec: leafSpec{ou: "mpiup-agent", cn: "w\x1b[2J"}, err: "names no host"},
		{name: "two groups", spec: leafSpec{uris: []string{"mpiup://g/agent/w", "mpiup://h/agent/w"}}, err: "two groups"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := certificatePeer(ca.issue(tt.spec).Leaf)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			if tt.want.RoleProven = true; err != nil || got != tt.want {
				t.Errorf("%+v, %v; want %+v", got, err, tt.want)
			}
		})
	}
}

func uri(role, name string) leafSpec {
	return leafSpec{uris: []string{"mpiup://g/" + role + "/" + name}}
}

func TestCertificateFilesMeet(t *testing.T) {
	ca := newCA("ca")
	launcher, _, err := ca.load(t, RoleLauncher, uri("launcher", "l"))
	if err != nil {
		t.Fatal(err)
	}
	agent, _, err := ca.load(t, RoleAgent, uri("agent", "w"))
	if err != nil {
		t.Fatal(err)
	}
	if launcher.JobID() != agent.JobID() || len(agent.JobID()) != 32 || !strings.HasPrefix(agent.KeyFrom(), "--tls-dir ") {
		t.Errorf("%s %s %s", launcher.JobID(), agent.JobID(), agent.KeyFrom())
	}
	c, s, cerr, serr := meet(t, launcher, agent)
	if cerr != nil || serr != nil {
		t.Fatal(cerr, serr)
	}
	if p := s.Peer(); p.Name != "l" || !p.RoleProven || Require(p, RoleLauncher) != nil {
		t.Errorf("%+v", p)
	}
	if p := c.Peer(); p.Name != "w" || Require(p, RoleLauncher) == nil {
		t.Errorf("%+v", p)
	}
	shared := member{key: "a", scope: "default"}
	otherGroup, _, err := ca.load(t, RoleLauncher, leafSpec{uris: []string{"mpiup://h/launcher/l"}})
	if err != nil {
		t.Fatal(err)
	}
	foreign, _, err := newCA("other").load(t, RoleLauncher, uri("launcher", "l"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name           string
		client, server *Identity
		want           string
	}{
		{"other group", otherGroup, agent, `of the group "mpiup://g", ours of "mpiup://h"`},
		{"other CA", foreign, agent, `is from "CN=ca", which our ca.crt does not hold`},
		{"secret to certificates", shared.load(t, RoleLauncher, "l"), agent, "with --tls-dir"},
		{"certificates to secret", launcher, shared.load(t, RoleAgent, "w"), "it uses a shared secret and we certificates"},
		{"launcher to launcher", launcher, launcher, `"l" has the role "launcher"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err, _ := meet(t, tt.client, tt.server)
			var r *Refusal
			if !errors.As(err, &r) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

func TestCertificateFilesRefusedAtLoad(t *testing.T) {
	ca, other := newCA("ca"), newCA("other")
	for _, tt := range []struct {
		name string
		spec leafSpec
		role Role
		do   func(dir string)
		want string
	}{
		{name: "wrong role", spec: uri("launcher", "l"), role: RoleAgent, want: `"l" has the role "launcher" in its certificate, this needs agent`},
		{name: "no role", spec: leafSpec{cn: "w"}, role: RoleAgent, want: "names no role"},
		{name: "expired", spec: leafSpec{uris: []string{"mpiup://g/agent/w"}, until: time.Now().Add(-time.Minute)}, role: RoleAgent, want: "expired"},
		{name: "agent without server auth", spec: leafSpec{uris: []string{"mpiup://g/agent/w"}, uses: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, role: RoleAgent, want: "usage"},
		{name: "other CA", spec: uri("agent", "w"), role: RoleAgent, want: "peers with this ca.crt would refuse it", do: func(dir string) {
			write(t, credential.Must(os.Readlink(dir+"/..data"))+"/ca.crt", other.pem())
		}},
		{name: "no CA file", spec: uri("agent", "w"), role: RoleAgent, want: "ca.crt: no such file", do: func(dir string) { os.Remove(dir + "/ca.crt") }},
		{name: "key in ca.crt", spec: uri("agent", "w"), role: RoleAgent, want: "only certificates belong there", do: func(dir string) {
			write(t, dir+"/ca.crt", credential.PEM("PRIVATE KEY", []byte("x")))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			ca.put(t, dir, ca.issue(tt.spec))
			if tt.do != nil {
				tt.do(dir)
			}
			_, err := Load(Options{TLSDir: dir, Role: tt.role, Root: t.TempDir()})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestCertificateFilesReload(t *testing.T) {
	ca, dir := newCA("ca"), t.TempDir()
	ca.put(t, dir, ca.issue(uri("agent", "first")))
	var log bytes.Buffer
	agent := credential.Must(Load(Options{TLSDir: dir, Role: RoleAgent, Root: t.TempDir(), Log: slog.New(slog.NewTextHandler(&log, nil))}))
	launcher, _, err := ca.load(t, RoleLauncher, uri("launcher", "l"))
	if err != nil {
		t.Fatal(err)
	}
	name := func() string {
		c, _, cerr, serr := meet(t, launcher, agent)
		if cerr != nil || serr != nil {
			t.Fatal(cerr, serr)
		}
		return c.Peer().Name
	}
	if got := name(); got != "first" {
		t.Errorf("at first %q", got)
	}
	ca.put(t, dir, ca.issue(uri("agent", "second")))
	if got := name(); got != "second" {
		t.Errorf("after a swap of links %q", got)
	}
	write(t, credential.Must(os.Readlink(dir+"/..data"))+"/tls.crt", []byte("half a fi"))
	for range 3 {
		if got := name(); got != "second" {
			t.Errorf("with a broken file %q", got)
		}
	}
	if err := os.Remove(dir + "/..data"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if got := name(); got != "second" {
			t.Errorf("with no file %q", got)
		}
	}
	ca.put(t, dir, ca.issue(uri("launcher", "wrong")))
	if got := name(); got != "second" {
		t.Errorf("with a certificate of another role %q", got)
	}
	if n := strings.Count(log.String(), "cannot be used"); n != 3 {
		t.Errorf("%d complaints, want one for each of three:\n%s", n, &log)
	}
	ca.put(t, dir, ca.issue(uri("agent", "third")))
	if got := name(); got != "third" {
		t.Errorf("after the repair %q", got)
	}
}

func FuzzRoots(f *testing.F) {
	f.Add(newCA("ca").pem())
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		defer cost.Watch(t, cost.Parser, len(data))()
		if roots, err := parseRoots(data); (err == nil) != (len(roots) > 0) {
			t.Errorf("%d roots, %v", len(roots), err)
		}
	})
}

func TestCertificateFilesByVariable(t *testing.T) {
	ca, dir := newCA("ca"), t.TempDir()
	ca.put(t, dir, ca.issue(uri("agent", "w")))
	key := filepath.Join(t.TempDir(), "key")
	write(t, key, []byte("0123456789abcdef"))
	for _, tt := range []struct {
		name string
		flag string // of KeyFile
		env  map[string]string
		from string // of the key, or the error as far as its first colon
	}{
		{"variable", "", map[string]string{"MPIUP_TLS_DIR": dir}, "--tls-dir " + dir},
		{"the flag counts", key, map[string]string{"MPIUP_TLS_DIR": dir}, "--key " + key},
		{"two variables", "", map[string]string{"MPIUP_TLS_DIR": dir, "MPIUP_KEY": key}, "MPIUP_KEY and MPIUP_TLS_DIR exclude each other"},
	} {
		id, err := Load(Options{KeyFile: tt.flag, Role: RoleAgent, Root: t.TempDir(), Env: func(name string) string { return tt.env[name] }})
		got := ""
		if err == nil {
			got = id.KeyFrom()
		} else if got, _, _ = strings.Cut(err.Error(), ":"); id != nil {
			t.Errorf("%s: an identity and %v", tt.name, err)
		}
		if got != tt.from {
			t.Errorf("%s: %q, %v", tt.name, got, err)
		}
	}
}
