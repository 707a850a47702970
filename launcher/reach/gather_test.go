package reach

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/resolve"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/link"
)

// fakeNet is agents by address; an address without one refuses.
type fakeNet struct {
	mu     sync.Mutex
	agents map[string]string      // address → incarnation, guarded by mu
	causes map[string]*link.Cause // address → why not, guarded by mu
	delay  map[string]time.Duration
	dials  int          // guarded by mu
	open   int          // sessions, guarded by mu
	beats  int          // frames that sessions sent, guarded by mu
	broken bool         // streams take nothing more, guarded by mu
	silent bool         // agents say nothing, guarded by mu
	says   *apiv1.Frame // in place of a sign of life, guarded by mu
}

// fakeStream is one session's, until life ends.
type fakeStream struct {
	*fakeNet
	life context.Context
}

func (s fakeStream) Send(*apiv1.Frame) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		return io.EOF
	}
	s.beats++
	return nil
}

func (s fakeStream) Recv() (*apiv1.Frame, error) {
	for {
		if link.Sleep(s.life, time.Second); s.life.Err() != nil {
			return nil, s.life.Err()
		}
		s.mu.Lock()
		silent, says := s.silent, s.says
		s.mu.Unlock()
		switch {
		case says != nil:
			return says, nil
		case !silent:
			return (&apiv1.Heartbeat{}).Frame(), nil
		}
	}
}

func (n *fakeNet) attach(ctx, life context.Context, addr netip.AddrPort, o *apiv1.Open) (*link.Session, error) {
	n.mu.Lock()
	n.dials++
	inc, c, d := n.agents[addr.String()], n.causes[addr.String()], n.delay[addr.String()]
	n.mu.Unlock()
	if link.Sleep(ctx, d); ctx.Err() != nil {
		return nil, link.Causef(link.StageConnect, "%v: no answer", addr)
	}
	if c != nil {
		return nil, c
	}
	if inc == "" {
		return nil, &link.Cause{Stage: link.StageConnect, Refused: true, Err: fmt.Errorf("%v: connection refused", addr)}
	}
	n.mu.Lock()
	n.open++
	n.mu.Unlock()
	life, cancel := context.WithCancel(life)
	return &link.Session{Addr: addr, Stream: fakeStream{n, life}, Opened: &apiv1.Opened{Host: &apiv1.HelloReply{Incarnation: inc}},
		Explain: link.AsCause, Close: func() { cancel(); n.mu.Lock(); n.open--; n.mu.Unlock() }}, nil
}

// wantAt is a host with candidates at ports 1 to 4 of 10.0.0.x.
func wantAt(name string, x int) hosts.Wanted {
	w := hosts.Wanted{Entry: hostlist.Entry{Name: name}}
	for p := 1; p <= 4; p++ {
		w.Fixed = append(w.Fixed, netip.MustParseAddrPort(fmt.Sprintf("10.0.0.%d:%d", x, p)))
	}
	return w
}

func TestGather(t *testing.T) {
	refusedTLS := link.Causef(link.StageTLS, "10.0.0.1:1: secret of another job")
	for _, tt := range []struct {
		name   string
		want   []hosts.Wanted
		agents map[string]string
		causes map[string]*link.Cause
		got    string // addresses, in order of want
		code   int
		says   string
	}{
		{name: "one address each", want: []hosts.Wanted{wantAt("a", 1), wantAt("b", 2)},
			agents: map[string]string{"10.0.0.1:1": "A", "10.0.0.2:1": "B"}, got: "10.0.0.1:1 10.0.0.2:1"},
		{name: "default port taken by something else", want: []hosts.Wanted{wantAt("a", 1)},
			agents: map[string]string{"10.0.0.1:3": "A"}, causes: map[string]*link.Cause{"10.0.0.1:1": refusedTLS}, got: "10.0.0.1:3"},
		{name: "siblings in order of port", want: []hosts.Wanted{wantAt("a", 1), wantAt("b", 1), wantAt("c", 1)},
			agents: map[string]string{"10.0.0.1:4": "C", "10.0.0.1:1": "A", "10.0.0.1:2": "B"}, got: "10.0.0.1:1 10.0.0.1:2 10.0.0.1:4"},
		{name: "two names of one agent", want: []hosts.Wanted{wantAt("a", 1), wantAt("b", 1)},
			agents: map[string]string{"10.0.0.1:1": "A"}, code: 241, says: "fewer agents than names"},
		{name: "one agent on two addresses", want: []hosts.Wanted{wantAt("a", 1), wantAt("b", 2)},
			agents: map[string]string{"10.0.0.1:1": "A", "10.0.0.2:1": "A"}, code: 241, says: "the agent there is host"},
		{name: "nobody there", want: []hosts.Wanted{wantAt("a", 1)}, code: 243, says: "host a: 10.0.0.1:1: connection refused"},
		{name: "TLS ranks above connect", want: []hosts.Wanted{wantAt("a", 1), wantAt("b", 2)},
			causes: map[string]*link.Cause{"10.0.0.1:1": refusedTLS}, code: 244, says: "secret of another job"},
		{name: "version ranks above TLS", want: []hosts.Wanted{wantAt("a", 1), wantAt("b", 2)},
			causes: map[string]*link.Cause{"10.0.0.1:1": refusedTLS, "10.0.0.2:2": link.Causef(link.StageVersion, "protocol 9")}, code: 245, says: "protocol 9"},
		{name: "fenced ends at once", want: []hosts.Wanted{wantAt("a", 1), wantAt("b", 2)},
			causes: map[string]*link.Cause{"10.0.0.1:1": link.Causef(link.StageFenced, "a newer launcher")}, code: 249, says: "newer launcher"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &fakeNet{agents: tt.agents, causes: tt.causes}
				r := &Reach{Wait: time.Minute}
				r.Fill()
				names := make([]string, len(tt.want))
				for i, w := range tt.want {
					names[i] = w.Entry.Name
				}
				b := newBoard(names, r)
				ctx, cancel := context.WithTimeout(context.Background(), r.Wait)
				defer cancel()
				begun := time.Now()
				g := newGatherer(r, n.attach, NewOpener(r), ctx)
				found := g.gather(ctx, tt.want, b)
				var got []string
				for _, f := range found {
					if f.Session != nil {
						got = append(got, f.Session.Addr.String())
					}
				}
				lines, code := b.verdict()
				if code != tt.code || tt.code == 0 && strings.Join(got, " ") != tt.got {
					t.Fatalf("code %d, agents %v; want %d, %s; %q", code, got, tt.code, tt.got, lines)
				}
				if n.open != len(got) {
					t.Errorf("%d sessions are open, %d are used", n.open, len(got))
				}
				if !strings.Contains(strings.Join(lines, "\n"), tt.says) {
					t.Errorf("%q does not say %q", lines, tt.says)
				}
				if code == 249 && time.Since(begun) > time.Second {
					t.Error("a fenced launcher asked again")
				}
			})
		})
	}
}

// What waiting does not cure ends a run within 20 s; what it may cure is waited for.
func TestGatherGivesUpWhatIsHopeless(t *testing.T) {
	silent := func(at string) *link.Cause { return (&Dialer{}).silentAt(netip.MustParseAddrPort(at)) }
	all := func(c func(at string) *link.Cause) map[string]*link.Cause {
		m := map[string]*link.Cause{}
		for _, w := range wantAt("a", 1).Fixed {
			m[w.String()] = c(w.String())
		}
		return m
	}
	for _, tt := range []struct {
		name   string
		causes map[string]*link.Cause
		insist bool
		wait   time.Duration // 0: a minute
		least  time.Duration
		most   time.Duration
		code   int
		says   string
	}{
		{name: "another job's secret", causes: all(func(at string) *link.Cause {
			return link.Causef(link.StageTLS, "%s: it holds the secret of another job", at)
		}),
			least: link.Hopeless, most: 20 * time.Second, code: 244, says: "host a: 10.0.0.1:1: it holds the secret of another job\n" + link.NoCure(&link.Cause{})},
		{name: "a key that may be changing", causes: all(func(at string) *link.Cause {
			return &link.Cause{Stage: link.StageTLS, Turns: true, Err: errors.New(at + ": it holds another key")}
		}), wait: 5 * time.Minute, least: link.KeyTurn, most: link.KeyTurn + 5*time.Second, code: 244, says: "it holds another key\n" + link.NoCure(&link.Cause{Turns: true})},
		{name: "another version", causes: map[string]*link.Cause{"10.0.0.1:1": link.Causef(link.StageVersion, "protocol 9")}, least: link.Hopeless, most: 20 * time.Second, code: 245, says: link.NoCure(&link.Cause{})},
		{name: "no answer", causes: all(silent), least: link.Hopeless, most: 20 * time.Second, code: 243,
			says: "host a: 10.0.0.1:1: no answer: a firewall may drop what is sent to port 1, or the host is down\n" + link.NoCure(&link.Cause{})},
		{name: "no answer, and the user waits", causes: all(silent), insist: true, least: time.Minute, most: 63 * time.Second, code: 243, says: "no answer: a firewall"},
		{name: "refused", least: time.Minute, most: 63 * time.Second, code: 243, says: "connection refused\nwaited 1m0s"},
		{name: "only another command line helps", causes: all(func(string) *link.Cause { return &link.Cause{Stage: link.StageTLS, Never: true, Err: io.EOF} }), most: time.Second, code: 244, says: "EOF"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &fakeNet{causes: tt.causes, delay: map[string]time.Duration{}}
				for at, c := range tt.causes {
					if c.Silent {
						n.delay[at] = connectTimeout
					}
				}
				r := &Reach{Wait: cmp.Or(tt.wait, time.Minute), Insist: tt.insist}
				r.Fill()
				ctx, cancel := context.WithTimeout(t.Context(), r.Wait)
				defer cancel()
				begun := time.Now()
				_, err := r.assembleBy(ctx, ctx, []hosts.Wanted{wantAt("a", 1)}, n.attach, NewOpener(r))
				var f *Failure
				if took := time.Since(begun); took < tt.least || took > tt.most {
					t.Errorf("it took %v", took)
				}
				if !errors.As(err, &f) || f.Code != tt.code || !strings.Contains(strings.Join(f.Lines, "\n"), tt.says) {
					t.Errorf("%v, want %d %q", err, tt.code, tt.says)
				}
			})
		})
	}
}

// Who was cut short by --timeout has not waited for all of --wait.
func TestTimeoutIsNoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Reach{Wait: time.Minute}
		r.Fill()
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, ErrTimeout)
		defer cancel()
		_, err := r.assembleBy(ctx, ctx, []hosts.Wanted{wantAt("a", 1)}, (&fakeNet{}).attach, NewOpener(r))
		if f := (*Failure)(nil); !errors.As(err, &f) || len(f.Lines) != 1 || strings.Contains(f.Lines[0], "waited") {
			t.Error(err)
		}
	})
}

// The key of --insecure is everybody's, so nothing is said to far hosts with it.
func TestInsecureReachesNobodyFar(t *testing.T) {
	id, err := identity.Load(identity.Options{Insecure: true, Role: identity.RoleLauncher, Name: "x", Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNet{agents: map[string]string{"10.0.0.1:1": "A"}}
		r := &Reach{Identity: id}
		r.Fill()
		_, err := r.assembleBy(t.Context(), t.Context(), []hosts.Wanted{wantAt("a", 1)}, n.attach, NewOpener(r))
		if f := (*Failure)(nil); !errors.As(err, &f) || f.Code != 244 || len(f.Lines) != 1 || !strings.Contains(f.Lines[0], "host a: it is at 10.0.0.1, and --insecure reaches") || n.dials != 0 {
			t.Errorf("%v after %d attempts", err, n.dials)
		}
	})
}

// Hosts that are enough end the search at once, and what waiting does not cure for one does not end it for the others.
func TestGatherUntilEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNet{agents: map[string]string{"10.0.0.1:1": "A"}, causes: map[string]*link.Cause{"10.0.0.2:1": link.Causef(link.StageTLS, "another job's")}}
		r := &Reach{}
		r.Fill()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		const late = 30 * time.Second // longer than what is hopeless is waited for
		time.AfterFunc(late, func() { n.mu.Lock(); n.agents["10.0.0.3:1"] = "C"; n.mu.Unlock() })
		g := newGatherer(r, n.attach, NewOpener(r), ctx)
		tried := false
		g.enough = func(have []Found) bool {
			tried = tried || have[1].Tried
			return have[0].Session != nil && have[2].Session != nil
		}
		begun := time.Now()
		found := g.gather(ctx, []hosts.Wanted{wantAt("a", 1), wantAt("b", 2), wantAt("c", 3)}, newBoard([]string{"a", "b", "c"}, r))
		if found[0].Session == nil || found[1].Session != nil || found[2].Session == nil || !tried {
			t.Errorf("%+v, tried %v", found, tried)
		}
		if took := time.Since(begun); took < late || took > late+3*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

func TestGatherWaitsForLateHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNet{agents: map[string]string{}}
		r := &Reach{}
		r.Fill()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		time.AfterFunc(20*time.Second, func() { n.mu.Lock(); n.agents["10.0.0.1:2"] = "A"; n.mu.Unlock() })
		g := newGatherer(r, n.attach, NewOpener(r), ctx)
		begun := time.Now()
		found := g.gather(ctx, []hosts.Wanted{wantAt("a", 1)}, newBoard([]string{"a"}, r))
		if found[0].Session == nil {
			t.Fatal("not found")
		}
		if d := time.Since(begun); d > 23*time.Second {
			t.Errorf("found after %v", d)
		}
		if n.dials > 40*4 {
			t.Errorf("%d attempts in 20 s", n.dials)
		}
	})
}

// Others are tried when the first has failed, or something answered there and says nothing more; never because nothing has come
// back yet, which may be our own fault.
func TestHeadStart(t *testing.T) {
	const refused = "refuses"
	for _, tt := range []struct {
		name  string
		first string // what is at the first port: an incarnation, "", or refused
		after time.Duration
		round time.Duration // until the first round trip; 0: there is none before the end
		dials int
		took  time.Duration
	}{
		{"a quick default port is asked alone", "A", 5 * time.Millisecond, time.Millisecond, 1, 5 * time.Millisecond},
		{"a slow one of which nothing is known is waited for", "A", 1900 * time.Millisecond, 0, 1, 1900 * time.Millisecond},
		{"one that answers and says nothing is not", "A", 5 * time.Second, 20 * time.Millisecond, 4, headStart + 20*time.Millisecond},
		{"one that answers late has its time", "A", 2200 * time.Millisecond, 1500 * time.Millisecond, 1, 2200 * time.Millisecond},
		{"others are tried at once when it refuses", refused, 3 * time.Millisecond, 0, 4, 3 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &fakeNet{agents: map[string]string{"10.0.0.1:1": tt.first, "10.0.0.1:3": "A"}, delay: map[string]time.Duration{"10.0.0.1:1": tt.after}}
				if tt.first == refused {
					delete(n.agents, "10.0.0.1:1")
				}
				begun := time.Now()
				s, err := race(context.Background(), wantAt("a", 1).Fixed, func(ctx context.Context, a netip.AddrPort) (*link.Session, error) {
					if tt.round > 0 {
						defer time.AfterFunc(tt.round, func() { noteAnswer(ctx) }).Stop()
					}
					return n.attach(ctx, ctx, a, nil)
				}, func(s *link.Session) { s.Close() })
				if err != nil {
					t.Fatal(err)
				}
				s.Close()
				if d := time.Since(begun); d != tt.took || n.dials != tt.dials || n.open != 0 {
					t.Errorf("took %v with %d attempts, %d open; want %v, %d", d, n.dials, n.open, tt.took, tt.dials)
				}
			})
		})
	}
}

func TestUnknownNameIsACauseOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		if err := os.MkdirAll(filepath.Join(root, "etc"), 0o755); err != nil {
			t.Fatal(err)
		}
		r := &Reach{Sources: hosts.Sources{Root: root}, Resolver: resolve.New(resolve.Config{Root: root})}
		r.Fill()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		b := newBoard([]string{"bad..name"}, r)
		g := newGatherer(r, (&fakeNet{}).attach, NewOpener(r), ctx)
		g.gather(ctx, []hosts.Wanted{{Entry: hostlist.Entry{Name: "bad..name"}}}, b)
		if lines, code := b.verdict(); code != 242 {
			t.Errorf("code %d: %q", code, lines)
		}
	})
}

func TestBoardOnATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		r := &Reach{Stderr: &out, Terminal: true, Width: func() int { return 40 }}
		r.Fill()
		b := newBoard([]string{"w0", "w1"}, r)
		b.set(0, nil)
		b.set(1, &link.Cause{Stage: link.StageConnect, Refused: true, Err: fmt.Errorf("%s", strings.Repeat("long ", 20))})
		ctx, cancel := context.WithCancel(context.Background())
		go func() { time.Sleep(time.Second); cancel() }()
		b.show(ctx)
		first, rest, _ := strings.Cut(out.String(), "\r\x1b[2A\x1b[J") // from the first column, wherever "^C" was echoed
		if want := "mpiup: waiting for 1 of 2 hosts (0s)\n  host w1: long long long long long lo…\n"; first != want {
			t.Errorf("drew %q, want %q", first, want)
		}
		if !strings.HasSuffix(rest, "\r\x1b[2A\x1b[J") {
			t.Errorf("the table stays: %q", rest)
		}
	})
}

func TestBoardInLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		r := &Reach{Stderr: &out}
		r.Fill()
		names := make([]string, 8)
		for i := range names {
			names[i] = fmt.Sprintf("w%d", i)
		}
		b := newBoard(names, r)
		refused := &link.Cause{Stage: link.StageConnect, Refused: true, Err: fmt.Errorf("x")}
		for i := range 7 {
			b.set(i, refused)
		}
		b.set(7, link.Causef(link.StageResolve, "x"))
		ctx, cancel := awake.Within(context.Background(), 5*time.Minute)
		go func() {
			time.Sleep(30500 * time.Millisecond)
			for i := range 7 {
				b.set(i, nil)
			}
			time.Sleep(70 * time.Second)
			cancel()
		}()
		b.show(ctx)
		want := `mpiup: waiting for 8 of 8 hosts (2s, 4m58s left): connection refused: w[0-6]; no such name: w7
mpiup: waiting for 8 of 8 hosts (10s, 4m50s left): connection refused: w[0-6]; no such name: w7
mpiup: waiting for 8 of 8 hosts (30s, 4m30s left): connection refused: w[0-6]; no such name: w7
mpiup: waiting for 1 of 8 hosts (35s, 4m25s left): no such name: w7
mpiup: waiting for 1 of 8 hosts (1m30s, 3m30s left): no such name: w7
`
		if out.String() != want {
			t.Errorf("printed\n%swant\n%s", out.String(), want)
		}
	})
}

// An agent ends a session whose launcher is silent for its lease, so a launcher that waits for
// others says something meanwhile; a stream that broke meanwhile is made anew.
func TestGatheringHoldsWhatItHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNet{agents: map[string]string{"10.0.0.1:1": "A"}}
		r := &Reach{Wait: 5 * time.Minute}
		r.Fill()
		ctx, cancel := context.WithTimeout(context.Background(), r.Wait)
		defer cancel()
		go func() {
			time.Sleep(90*time.Second + 500*time.Millisecond)
			n.mu.Lock()
			if n.beats < 17 || n.dials > 500 {
				t.Errorf("%d signs of life in 90 s, %d dials", n.beats, n.dials)
			}
			n.broken = true
			n.mu.Unlock()
			time.Sleep(longest)
			n.mu.Lock()
			n.broken = false
			n.mu.Unlock()
			time.Sleep(2 * time.Second)
			n.mu.Lock()
			if n.open != 1 {
				t.Errorf("%d sessions are open after one broke, want 1", n.open)
			}
			n.agents["10.0.0.2:1"] = "B"
			n.mu.Unlock()
		}()
		g := newGatherer(r, n.attach, NewOpener(r), ctx)
		found := g.gather(ctx, []hosts.Wanted{wantAt("a", 1), wantAt("b", 2)}, newBoard([]string{"a", "b"}, r))
		if found[0].Session == nil || found[1].Session == nil || n.open != 2 {
			t.Errorf("not all hosts were reached: %v, %d sessions", found, n.open)
		}
	})
}

// A stream that broke since the last sign of life is noticed before the job is placed, not after.
func TestHeldUntilTheLastMoment(t *testing.T) {
	for _, broken := range []bool{false, true} {
		n := &fakeNet{broken: broken}
		g := &gatherer{reach: &Reach{}, full: make(chan struct{})}
		g.miss(1) // full with this one
		if c := g.hold(t.Context(), &link.Session{Stream: fakeStream{n, t.Context()}, Explain: link.AsCause}, nil); (c != nil) != broken {
			t.Errorf("broken %v: %v", broken, c)
		}
	}
}

// A host that falls silent while others are waited for is missed again in time, and reached anew when it answers; so is
// one whose agent has ended the session. A host that speaks is held however long others take.
func TestGatheringMissesWhoFallsSilent(t *testing.T) {
	for _, tt := range []struct {
		name string
		ill  func(n *fakeNet)
		well func(n *fakeNet)
	}{
		{"silent", func(n *fakeNet) { n.silent = true }, func(n *fakeNet) { n.silent = false }},
		{"the agent ends the session", func(n *fakeNet) { n.says = (&apiv1.Closed{Text: "launcher x has been silent for 5s"}).Frame() },
			func(n *fakeNet) { n.says = nil }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &fakeNet{agents: map[string]string{"10.0.0.1:1": "A"}}
				r := &Reach{Wait: 5 * time.Minute, NodeTimeout: 3 * time.Second}
				r.Fill()
				ctx, cancel := context.WithTimeout(t.Context(), r.Wait)
				defer cancel()
				b := newBoard([]string{"a", "b"}, r)
				done := make(chan []Found)
				g := newGatherer(r, n.attach, NewOpener(r), ctx)
				go func() { done <- g.gather(ctx, []hosts.Wanted{wantAt("a", 1), wantAt("b", 2)}, b) }()
				missing := func() (first *link.Cause) {
					b.mu.Lock()
					defer b.mu.Unlock()
					return b.missing[0]
				}
				time.Sleep(60 * time.Second)
				if c := missing(); c != nil || n.open != 1 {
					t.Errorf("after a minute the host is missed: %v, %d sessions", c, n.open)
				}
				n.mu.Lock()
				tt.ill(n)
				delete(n.agents, "10.0.0.1:1")
				n.causes = map[string]*link.Cause{"10.0.0.1:1": silentFor(netip.MustParseAddrPort("10.0.0.1:1"), time.Second)}
				n.mu.Unlock()
				time.Sleep(4500 * time.Millisecond)
				if missing() == nil || n.open != 0 {
					t.Errorf("not missed, %d sessions", n.open)
				}
				n.mu.Lock()
				tt.well(n)
				n.agents, n.causes = map[string]string{"10.0.0.1:1": "A", "10.0.0.2:1": "B"}, nil
				n.mu.Unlock()
				found := <-done
				if found[0].Session == nil || found[1].Session == nil {
					t.Errorf("reached %v", found)
				}
				CloseAll(found)
			})
		})
	}
}

// An answer that took so long that the agent may have given the launcher up meanwhile is none.
func TestGatheringTakesNoLateAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNet{agents: map[string]string{"10.0.0.1:1": "A"}, delay: map[string]time.Duration{"10.0.0.1:1": 3 * time.Second}}
		r := &Reach{Lease: 5 * time.Second}
		r.Fill()
		ctx, cancel := context.WithTimeout(t.Context(), r.Wait)
		defer cancel()
		b := newBoard([]string{"a"}, r)
		done := make(chan []Found)
		g := newGatherer(r, n.attach, NewOpener(r), ctx)
		w := wantAt("a", 1)
		w.Fixed = w.Fixed[:1]
		go func() { done <- g.gather(ctx, []hosts.Wanted{w}, b) }()
		time.Sleep(3500 * time.Millisecond)
		b.mu.Lock()
		c := b.missing[0]
		b.mu.Unlock()
		if c == nil || !strings.Contains(c.Error(), "its answer took 3s") {
			t.Errorf("missed for %v", c)
		}
		n.mu.Lock()
		n.delay = nil
		n.mu.Unlock()
		found := <-done
		if found[0].Session == nil || n.open != 1 {
			t.Errorf("reached %v, %d sessions", found, n.open)
		}
		CloseAll(found)
	})
}
