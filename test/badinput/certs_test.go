package badinput

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net/url"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/credential"
	"github.com/mpiup/mpiup/test/lab"
)

// authority is a CA for --tls-dir.
type authority struct{ credential.Authority }

func newAuthority(name string) authority { return authority{credential.NewAuthority(name)} }

// files is a --tls-dir with a leaf of ours, valid in the given time from now, and trust's ca.crt.
func (a authority) files(t *testing.T, uri string, from, to time.Duration, trust authority) string {
	t.Helper()
	leaf := x509.Certificate{Subject: pkix.Name{CommonName: "leaf"}, NotBefore: time.Now().Add(from), NotAfter: time.Now().Add(to)}
	if uri != "" {
		leaf.URIs = []*url.URL{credential.Must(url.Parse(uri))}
	}
	return trust.Dir(t, a.Issue(leaf))
}

const day = 24 * time.Hour

func TestCertificates(t *testing.T) {
	ca, foreign := newAuthority("ca"), newAuthority("foreign")
	const launcherURI, agentURI = "mpiup://team/launcher/l", "mpiup://team/agent/a"
	bare := []string{"MPIUP_KEY="}
	a := startAgent(t, bare, "--http", "off", "--tls-dir", ca.files(t, agentURI, -day, day, ca))
	shared := startAgent(t, nil, "--http", "off")
	for _, tt := range []struct {
		name string
		dir  string // "": the shared secret
		host string
		code int
		says []string
	}{
		{"it fits", ca.files(t, launcherURI, -day, day, ca), a.Addr, 0, nil},
		{"expired", ca.files(t, launcherURI, -2*day, -day, ca), a.Addr, 244, []string{"expired"}},
		{"not valid yet", ca.files(t, launcherURI, day, 2*day, ca), a.Addr, 244, nil},
		{"of another CA", foreign.files(t, launcherURI, -day, day, ca), a.Addr, 244, nil},
		{"trusts another CA", foreign.files(t, launcherURI, -day, day, foreign), a.Addr, 244, []string{"ca.crt"}},
		{"of another group", ca.files(t, "mpiup://other/launcher/l", -day, day, ca), a.Addr, 244, nil},
		{"an agent's", ca.files(t, agentURI, -day, day, ca), a.Addr, 244, []string{"launcher"}},
		{"without a role", ca.files(t, "", -day, day, ca), a.Addr, 244, []string{"mpiup://GROUP/launcher/NAME"}},
		{"secret against certificates", "", a.Addr, 244, []string{"--tls-dir"}},
		{"certificates against secret", ca.files(t, launcherURI, -day, day, ca), shared.Addr, 244, []string{"shared secret"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			args := []string{"run", "--wait", "2", "--host", tt.host + ":1"}
			env := bare
			if tt.dir == "" {
				env = nil
			} else {
				args = append(args, "--tls-dir", tt.dir)
			}
			e := mpiup(t, env, append(args, "true")...)
			e.check(t, tt.code, tt.says...)
			t.Log(e.Stderr)
		})
	}
}

// What the policy gives to agents' certificates is theirs, and no more; launchers have only what it
// gives to launchers.
func TestPolicyByRole(t *testing.T) {
	ca := newAuthority("ca")
	bare := []string{"MPIUP_KEY="}
	policy := write(t, t.TempDir(), "policy", "allow exec agent\nallow run launcher\n", 0o644)
	dirs := map[string]string{}
	for _, role := range []string{"launcher", "agent"} {
		dirs[role] = ca.files(t, "mpiup://team/"+role+"/one", -day, day, ca)
	}
	a := startAgent(t, bare, "--http", "off", "--policy", policy, "--tls-dir", dirs["agent"])
	usual := startAgent(t, bare, "--http", "off", "--tls-dir", dirs["agent"])
	run := func(a *lab.Loopback, role string) ended {
		return mpiup(t, bare, "run", "--wait", "20", "--host", a.Addr+":1", "--tls-dir", dirs[role], "true")
	}
	exec := func(a *lab.Loopback, role string) ended {
		return mpiup(t, bare, "exec", "--tls-dir", dirs[role], a.Addr, "--", "true")
	}
	run(a, "launcher").check(t, 0)
	exec(a, "agent").check(t, 0)
	run(a, "agent").check(t, 246, "rank 0", a.Addr, "refuses run to agents (no line of "+policy+" allows it) and allows them exec")
	exec(a, "launcher").check(t, 246, "the command on "+a.Addr, "refuses exec to launchers", "allows them run")
	exec(usual, "launcher").check(t, 0)
	link := filepath.Join(t.TempDir(), "ssh")
	if err := os.Symlink(bin, link); err != nil {
		t.Fatal(err)
	}
	ssh := osexec.Command(link, a.Addr, "hostname")
	ssh.Env = []string{"PATH=/usr/bin:/bin", "MPIUP_TLS_DIR=" + dirs["agent"]}
	if out, err := ssh.CombinedOutput(); ssh.ProcessState.ExitCode() != 255 || !strings.Contains(string(out), "refuses shell to agents") {
		t.Errorf("ssh with the agent's certificate: %v, %s", err, out)
	}
	exec(usual, "agent").check(t, 244, a.Addr[:4], `the role "agent" in its certificate, this needs launcher`)
	if e := run(usual, "agent"); e.Took > 15*time.Second {
		t.Errorf("a role that does not fit was waited with for %v: %s", e.Took, e.Stderr)
	}
	for log, lines := range map[string][]string{
		a.Log.String(): {`msg=policy allows="launcher: run; agent: exec; all else is refused (` + policy, `msg="start refused" what=run`,
			`identity=one role=agent proven=true`, `msg="start refused" what=exec`, `msg=start what=exec`},
		usual.Log.String(): {`msg=start what=exec`, `role=launcher proven=true`},
	} {
		for _, l := range lines {
			if !strings.Contains(log, l) {
				t.Errorf("the log lacks %q:\n%s", l, log)
			}
		}
	}
}

// The Secret of a job gets another key while its agent runs: launchers with either are served, without a new job.
func TestKeyIsReplaced(t *testing.T) {
	dir := t.TempDir()
	mounted, old, young := filepath.Join(dir, "mounted"), filepath.Join(dir, "old"), filepath.Join(dir, "young")
	for _, file := range []string{old, young} {
		if err := keygen(file); err != nil {
			t.Fatal(err)
		}
	}
	mount := func(file string) { // as the kubelet does: a link that is replaced
		next := mounted + ".next"
		if err := os.Symlink(file, next); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, mounted); err != nil {
			t.Fatal(err)
		}
	}
	mount(old)
	now := time.Now()
	if err := os.Chtimes(young, now, now); err != nil {
		t.Fatal(err)
	}
	a := startAgent(t, []string{"MPIUP_KEY=" + mounted, "MPIUP_JOB=x"}, "--http", "off")
	run := func(key string, code int) {
		t.Helper()
		mpiup(t, []string{"MPIUP_KEY=" + key, "MPIUP_JOB=x"}, "run", "--wait", "3s", "--host", a.Addr, "-n", "1", "--", "true").check(t, code)
	}
	run(old, 0)
	run(young, 244)
	mount(young)
	run(young, 0)
	run(old, 0)
}

// Of several agents on one host network all but one are at ports that follow from the key. Launchers that have the new one alone find them.
func TestKeyIsReplacedWherePortsFollowFromIt(t *testing.T) {
	dir := t.TempDir()
	mounted, young, others := filepath.Join(dir, "mounted"), filepath.Join(dir, "young"), filepath.Join(dir, "others")
	for _, file := range []string{mounted, young, others} {
		if err := keygen(file); err != nil {
			t.Fatal(err)
		}
	}
	first := startAgent(t, []string{"MPIUP_KEY=" + others, "MPIUP_JOB=y"}, "--http", "off") // it has the default port
	a := startAgent(t, []string{"MPIUP_KEY=" + mounted, "MPIUP_JOB=x"}, "--http", "off", "--listen", first.Addr)
	run := func(key string) {
		t.Helper()
		mpiup(t, []string{"MPIUP_KEY=" + key, "MPIUP_JOB=x"}, "run", "--wait", "10s", "--host", first.Addr, "-n", "1", "--", "true").check(t, 0)
	}
	run(mounted)
	if err := os.Link(young, mounted+".next"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(mounted+".next", mounted); err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, "the agent listens on a port of the new key", func() bool { return strings.Contains(a.Log.String(), "listens on a port of the job's new key") })
	run(young)
}
