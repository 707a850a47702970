package launcher

import (
	"bytes"
	"crypto/x509"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/journal"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/test/credential"
)

// proven is a process of the job whose certificate says what it is.
func proven(t *testing.T, ca credential.Authority, role, name string) *identity.Identity {
	t.Helper()
	cert := ca.Issue(x509.Certificate{URIs: []*url.URL{{Scheme: "mpiup", Host: "team", Path: "/" + role + "/" + name}}, NotAfter: time.Now().Add(time.Hour)})
	return credential.Must(identity.Load(identity.Options{TLSDir: ca.Dir(t, cert), Role: identity.Role(role), Name: name, Root: t.TempDir()}))
}

// An agent that lies about a run that it holds is not believed: a launcher of the job must have signed every byte.
func TestJournalOfAHostileAgent(t *testing.T) {
	ca := credential.NewAuthority("job")
	launcher, agent := proven(t, ca, "launcher", "l0"), proven(t, ca, "agent", "w0")
	stranger := proven(t, credential.NewAuthority("other"), "launcher", "l0")
	j := &journal.Journal{Run: strings.Repeat("ab", 8), Universe: 1, Sites: []journal.Site{{Name: "w0", Slots: 1, Address: netip.MustParseAddrPort("10.0.0.7:16748")}},
		Hosts: []journal.Host{{Session: strings.Repeat("01", 16), Agent: strings.Repeat("0a", 16)}}, Ranks: []journal.Rank{{}}}
	good := credential.Must(j.Encode())
	signed := func(by *identity.Identity, kind string, b []byte) *apiv1.Hold {
		return &apiv1.Hold{Journal: b, Proof: credential.Must(by.Sign(kind, b))}
	}
	changed := signed(launcher, journalKind, good)
	changed.Journal = bytes.Replace(good, []byte("10.0.0.7"), []byte("10.0.0.8"), 1)
	for _, tt := range []struct {
		name string
		hold *apiv1.Hold
		code int // 0: it is believed
	}{
		{"as a launcher left it", signed(launcher, journalKind, good), 0},
		{"by no one", &apiv1.Hold{Journal: good}, job.ExitTLS},
		{"by an agent", signed(agent, journalKind, good), job.ExitTLS},
		{"by a launcher of another job", signed(stranger, journalKind, good), job.ExitTLS},
		{"another statement of a launcher", signed(launcher, "number", good), job.ExitTLS},
		{"another host's address", changed, job.ExitTLS},
		{"without end", &apiv1.Hold{Journal: make([]byte, journal.MaxSize+1)}, job.ExitTLS},
		{"of another format", signed(launcher, journalKind, []byte(`{"format":2}`)), job.ExitUsage},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &planner{cfg: &Config{Wishes: Wishes{Apps: []job.App{{Argv: []string{"a.out"}}}}}}
			p.cfg.Identity = launcher
			_, err := p.read(tt.hold, "w0")
			if tt.code == 0 {
				if err != nil {
					t.Error(err)
				}
				return
			}
			f := failure(err)
			if err == nil || f.Code != tt.code || !strings.Contains(f.Lines[0], "host w0") {
				t.Errorf("%v, want code %d", err, tt.code)
			}
		})
	}
}

// What a user said of a lost launcher is no part of the command, and what the program is told is.
func TestCommandOfARun(t *testing.T) {
	same := func(a, b []string, flagsA, flagsB int) bool {
		x, y := CommandOf(a, flagsA), CommandOf(b, flagsB)
		return bytes.Equal(x.digest(), y.digest())
	}
	if !same([]string{"run", "--on-launcher-loss", "hold=5m", "-n", "2", "a"}, []string{"run", "-n", "2", "--on-launcher-loss=fence", "a"}, 5, 4) {
		t.Error("--on-launcher-loss makes another command")
	}
	if same([]string{"run", "a", "--on-launcher-loss", "x"}, []string{"run", "a"}, 1, 1) {
		t.Error("the program's own words are left out")
	}
	if same([]string{"run", "a b"}, []string{"run", "a", "b"}, 1, 1) {
		t.Error("two words are one")
	}
}

// Who comes to ranks of another command is told both, and how to go on.
func TestRunOfAnotherCommand(t *testing.T) {
	held := &reach.Held{Host: "w0", Runs: []*apiv1.Held{{Launcher: "l0", LeftMs: 90_000, Hold: &apiv1.Hold{Command: []byte("x"), Text: "run ./train"}}}}
	p := &planner{cfg: &Config{Command: CommandOf([]string{"run", "./other"}, 1)}}
	_, err := p.mine(held)
	const want = "host w0 holds the ranks of launcher l0, which is lost; its command was run ./train, and this one is run ./other: " +
		"start that one with --on-launcher-loss hold to go on with it, end its ranks with --on-launcher-loss fence, or wait 1m30s"
	if f := failure(err); f.Code != job.ExitUsage || f.Lines[0] != want {
		t.Errorf("%d %q", f.Code, f.Lines)
	}
	held.Runs[0].Hold.Command = p.cfg.Command.digest()
	if _, err := p.mine(held); !strings.Contains(failure(err).Lines[0], "of this very command") {
		t.Errorf("without hold: %v", err)
	}
	p.cfg.Loss.Hold = time.Minute
	if h, err := p.mine(held); err != nil || h != held.Runs[0] {
		t.Errorf("with hold: %v", err)
	}
}

// Hosts tell ages when they are handed over, one after the other; which end came first does not hang on who was handed over first.
func TestAgesOfSeveralHosts(t *testing.T) {
	t0 := time.Now()
	h := &heir{taken: []time.Time{t0, t0.Add(350 * time.Millisecond)}, settled: t0.Add(400 * time.Millisecond)}
	for _, tt := range []struct {
		host int
		said time.Duration
		want time.Duration // before the hosts were settled
	}{
		{0, 20 * time.Millisecond, 420 * time.Millisecond},
		{1, 380 * time.Millisecond, 430 * time.Millisecond}, // a moment before that of host 0
		{1, time.Millisecond, 51 * time.Millisecond},
		{0, before, before - 1},
	} {
		if at, known := h.at(tt.host, tt.said); !known || at != before-tt.want {
			t.Errorf("host %d, %v old: %v before, %v", tt.host, tt.said, before-at, known)
		}
	}
	for _, none := range []struct {
		h    *heir
		host int
		said time.Duration
	}{{nil, 0, time.Second}, {h, 0, 0}, {h, 2, time.Second}} {
		if at, known := none.h.at(none.host, none.said); known {
			t.Errorf("host %d, %v old: %v", none.host, none.said, at)
		}
	}
}
