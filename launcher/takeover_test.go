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
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/launcher/run/model"
	"github.com/mpiup/mpiup/launcher/run/phases"
	"github.com/mpiup/mpiup/launcher/verdict"
	"github.com/mpiup/mpiup/test/credential"
)

// proven is a process of the job whose certificate, which has ended for so long, says what it is.
func proven(t *testing.T, ca credential.Authority, role, name string, ended time.Duration) *identity.Identity {
	t.Helper()
	cert := ca.Issue(x509.Certificate{URIs: []*url.URL{{Scheme: "mpiup", Host: "team", Path: "/" + role + "/" + name}},
		NotBefore: time.Now().Add(-ended - 2*time.Hour), NotAfter: time.Now().Add(12*time.Hour - ended)})
	dir := ca.Dir(t, cert)
	return credential.Must(identity.Load(identity.Options{TLSDir: dir, Role: identity.Role(role), Name: name, Root: t.TempDir(), Now: func() time.Time { return time.Now().Add(-ended) }}))
}

// An agent that lies about a run that it holds is not believed: this very launcher, as it was when it lived, must have signed every byte, and lately.
func TestJournalOfAHostileAgent(t *testing.T) {
	ca, day := credential.NewAuthority("job"), 24*time.Hour
	launcher, agent, other := proven(t, ca, "launcher", "l0", 0), proven(t, ca, "agent", "w0", 0), proven(t, ca, "launcher", "l1", 0)
	stranger, ended := proven(t, credential.NewAuthority("other"), "launcher", "l0", 0), proven(t, ca, "launcher", "l0", 190*day)
	j := &phases.Journal{Run: strings.Repeat("ab", 8), Sites: []model.Site{{Host: job.Host{Name: "w0", Slots: 1}, Address: netip.MustParseAddrPort("10.0.0.7:16748")}},
		Hosts: []phases.Session{{Session: strings.Repeat("01", 16), Agent: strings.Repeat("0a", 16)}}, Plan: &job.Plan{Universe: 1, Placements: []job.Placement{{}}}}
	good := credential.Must(j.Encode())
	of := func(by *identity.Identity) *planner {
		p := &planner{cfg: &Config{Wishes: Wishes{Apps: []job.App{{Argv: []string{"a.out"}}}}, Command: CommandOf([]string{"run", "a.out"}, 1)}}
		p.cfg.Identity, p.cfg.Loss.Hold = by, time.Minute
		return p
	}
	signed := func(by *identity.Identity, b []byte, ago time.Duration) *apiv1.Hold {
		return credential.Must(of(by).sign(b, time.Now().Add(-ago)))
	}
	changed := func(change func(h *apiv1.Hold)) *apiv1.Hold {
		h := signed(launcher, good, 0)
		change(h)
		return h
	}
	for _, tt := range []struct {
		name string
		hold *apiv1.Hold
		code int // 0: it is believed
	}{
		{"as a launcher left it", signed(launcher, good, 0), 0},
		{"of a launcher that lived an hour ago, by a clock that goes wrong", signed(launcher, good, 13*time.Hour), 0},
		{"by a clock that is ahead", signed(launcher, good, -11*time.Hour), 0},
		{"of the day before yesterday", signed(launcher, good, 2*day), job.ExitTLS},
		{"of tomorrow", signed(launcher, good, -day), job.ExitTLS},
		{"by a certificate that ended 190 days ago", signed(ended, good, 0), job.ExitTLS},
		{"of 190 days ago", signed(ended, good, 190*day), job.ExitTLS},
		{"by another launcher", signed(other, good, 0), job.ExitTLS},
		{"by no one", changed(func(h *apiv1.Hold) { h.Proof = nil }), job.ExitTLS},
		{"by an agent", signed(agent, good, 0), job.ExitTLS},
		{"by a launcher of another job", signed(stranger, good, 0), job.ExitTLS},
		{"another statement of a launcher", changed(func(h *apiv1.Hold) { h.Proof = credential.Must(launcher.Sign("number", signedOf(h))) }), job.ExitTLS},
		{"another host's address", changed(func(h *apiv1.Hold) { h.Journal = bytes.Replace(good, []byte("10.0.0.7"), []byte("10.0.0.8"), 1) }), job.ExitTLS},
		{"another command", changed(func(h *apiv1.Hold) { h.Command = make([]byte, 32) }), job.ExitTLS},
		{"a later hour", changed(func(h *apiv1.Hold) { h.SignedS += 3600 }), job.ExitTLS},
		{"held for longer", changed(func(h *apiv1.Hold) { h.HoldMs *= 2 }), job.ExitTLS},
		{"of the end of times", changed(func(h *apiv1.Hold) { h.SignedS, h.HoldMs = 1<<64-1, 1<<64-1 }), job.ExitTLS},
		{"nothing", nil, job.ExitTLS},
		{"without end", &apiv1.Hold{Journal: make([]byte, phases.MaxJournal+1)}, job.ExitTLS},
		{"of another format", signed(launcher, []byte(`{"format":2}`), 0), job.ExitUsage},
		{"of another agent", signed(launcher, bytes.Replace(good, []byte("0a0a"), []byte("0b0b"), 1), 0), job.ExitTLS},
		{"of another session", signed(launcher, bytes.Replace(good, []byte("0101"), []byte("0202"), 1), 0), job.ExitTLS},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := of(launcher)
			held := &reach.Held{Host: "w0", Agent: strings.Repeat("0a", 16), Runs: []*apiv1.Held{{Session: strings.Repeat("01", 16), Hold: tt.hold}}}
			at, err := mine(p, held)
			if err == nil {
				_, err = p.read(held.Runs[at], held)
			}
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

// mine is which of a host's runs a launcher takes over that has met it.
func mine(p *planner, held *reach.Held) (at int, err error) {
	p.course = phases.New(phases.Config{})
	p.course.Sought(make([]hosts.Wanted, 1))
	next, err := p.holds(held)
	if f := next.Failure; f != nil {
		err = &reach.Failure{Code: f.Code, Lines: f.Lines, Outrun: f.Outrun}
	}
	return next.At, err
}

// Who comes to ranks of another command is told both, and how to go on.
func TestRunOfAnotherCommand(t *testing.T) {
	id := credential.Must(identity.Load(identity.Options{Insecure: true, Role: identity.RoleLauncher, Name: "l0", Root: t.TempDir()}))
	before := &planner{cfg: &Config{Command: CommandOf([]string{"run", "./train"}, 1)}}
	p := &planner{cfg: &Config{Command: CommandOf([]string{"run", "./other"}, 1)}}
	before.cfg.Identity, p.cfg.Identity = id, id
	held := &reach.Held{Host: "w0", Runs: []*apiv1.Held{{Launcher: "l0", LeftMs: 90_000, Hold: credential.Must(before.sign([]byte("{}"), time.Now()))}}}
	_, err := mine(p, held)
	const want = "host w0 holds the ranks of launcher l0, which is lost; its command was run ./train, and this one is run ./other: " +
		"start that one with --on-launcher-loss hold to go on with it, end its ranks with --on-launcher-loss fence, or wait 1m30s"
	if f := failure(err); f.Code != job.ExitUsage || f.Lines[0] != want {
		t.Errorf("%d %q", f.Code, f.Lines)
	}
	held.Runs[0].Hold = credential.Must(p.sign([]byte("{}"), time.Now()))
	if _, err := mine(p, held); !strings.Contains(failure(err).Lines[0], "of this very command") {
		t.Errorf("without hold: %v", err)
	}
	p.cfg.Loss.Hold = time.Minute
	if _, err := mine(p, held); err != nil {
		t.Errorf("with hold: %v", err)
	}
	held.Runs[0].Taken = true
	_, err = mine(p, held)
	f := failure(err)
	if v := verdict.Early(f.Code, f.Outrun, f.Lines, verdict.Circumstances{}); f.Code != job.ExitPreempted || v.Kind != verdict.Interrupted {
		t.Errorf("another launcher was there first: code %d, %s", f.Code, v.Kind)
	}
}

// Hosts tell ages when they are handed over, one after the other; which end came first does not hang on who was handed over first.
func TestAgesOfSeveralHosts(t *testing.T) {
	t0 := time.Now()
	h := &predecessor{taken: []time.Time{t0, t0.Add(350 * time.Millisecond)}, settled: t0.Add(400 * time.Millisecond)}
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
		h    *predecessor
		host int
		said time.Duration
	}{{nil, 0, time.Second}, {h, 0, 0}, {h, 2, time.Second}} {
		if at, known := none.h.at(none.host, none.said); known {
			t.Errorf("host %d, %v old: %v", none.host, none.said, at)
		}
	}
}
