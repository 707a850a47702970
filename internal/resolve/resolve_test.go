package resolve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const kubelet = "nameserver 10.96.0.10\nsearch ns.svc.corp.example svc.corp.example corp.example node.example job.ns.svc.cluster.local\noptions ndots:5\n"

func texts(addrs []netip.Addr) []string {
	var out []string
	for _, a := range addrs {
		out = append(out, a.String())
	}
	return out
}

func TestLookup(t *testing.T) {
	const hosts = "127.0.0.1 localhost\n10.0.0.9\tJob-Worker-1.job.ns.svc.corp.example job-worker-1 # kubelet\n" +
		"10.0.0.8 both\nfd00::8 both\nnonsense both\n10.0.0.8 both\n"
	zone := func(t *testing.T) *zone {
		return newZone(t, map[string][]string{
			"job-worker-0.job.ns.svc.corp.example": {"10.0.0.1"},
			"six.job.ns.svc.corp.example":          {"fd00::1"},
			"dual.job.ns.svc.corp.example":         {"10.0.0.2", "::1", "10.0.0.3"},
			"t-node-0-0.t.ns.svc.corp.example":     {"10.0.0.4"},
			"www.example.org":                      {"192.0.2.1"},
			"empty.job.ns.svc.corp.example":        {},
		})
	}
	tests := []struct {
		name, lookup string
		want         []string
		questions    int // -1: not counted
	}{
		{"IPv4 literal", "10.1.2.3", []string{"10.1.2.3"}, 0},
		{"IPv6 literal", "fd00::7", []string{"fd00::7"}, 0},
		{"IPv6 literal with zone in brackets", "[fe80::1%lo]", []string{"fe80::1%lo"}, 0},
		{"mapped literal", "::ffff:10.0.0.1", []string{"10.0.0.1"}, 0},
		{"hosts alias", "JOB-worker-1", []string{"10.0.0.9"}, 0},
		{"hosts full name", "job-worker-1.job.ns.svc.corp.example", []string{"10.0.0.9"}, 0},
		{"hosts name without cluster domain", "job-worker-1.job.ns.svc", []string{"10.0.0.9"}, 0},
		{"hosts with two families, no duplicate", "both", []string{"10.0.0.8", "fd00::8"}, 0},
		{"localhost", "localhost", []string{"127.0.0.1"}, 0},
		{"below localhost", "a.localhost", []string{"127.0.0.1", "::1"}, 0},
		{"operator's name costs one pair", "job-worker-0.job.ns.svc", []string{"10.0.0.1"}, 2},
		{"with the domain too", "job-worker-0.job.ns.svc.corp.example", []string{"10.0.0.1"}, 2},
		{"absolute", "job-worker-0.job.ns.svc.corp.example.", []string{"10.0.0.1"}, 2},
		{"IPv6 only", "six.job.ns.svc", []string{"fd00::1"}, 2},
		{"short name by the search list", "t-node-0-0.t", []string{"10.0.0.4"}, 2},
		{"outside, after the search list", "www.example.org", []string{"192.0.2.1"}, 12},
		{"unknown service name is not searched for", "gone.job.ns.svc", nil, 2},
		{"no addresses", "empty.job.ns.svc", nil, 2},
		{"unknown short name", "gone", nil, 12},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			z := zone(t)
			got, err := z.to(root(t, hosts, kubelet)).Lookup(within(t, 30*time.Second), tc.lookup)
			if tc.want == nil {
				if !errors.Is(err, ErrNoName) {
					t.Errorf("error %v, want ErrNoName", err)
				}
			} else if err != nil {
				t.Error(err)
			}
			sortFamilies := func(in []string) map[string]bool {
				out := map[string]bool{}
				for _, s := range in {
					out[s] = true
				}
				return out
			}
			if d := cmp.Diff(sortFamilies(tc.want), sortFamilies(texts(got))); d != "" || len(got) != len(tc.want) {
				t.Error(got, d)
			}
			n := 0
			for _, c := range z.questions() {
				n += c
			}
			if n != tc.questions {
				t.Errorf("%d questions, want %d: %v", n, tc.questions, z.questions())
			}
		})
	}
}

func TestDualStackKeepsBoth(t *testing.T) {
	z := newZone(t, map[string][]string{"h": {"127.0.0.1", "127.0.0.2", "::1"}})
	got, err := z.to(root(t, "", "nameserver 127.0.0.1\n")).Lookup(within(t, 30*time.Second), "h")
	if err != nil || len(got) != 3 {
		t.Fatal(got, err)
	}
}

func TestManyAddresses(t *testing.T) {
	var many []string
	for i := range 600 {
		many = append(many, fmt.Sprintf("10.0.%d.%d", i/250, i%250+1))
	}
	t.Run("over TCP", func(t *testing.T) {
		z := newZone(t, map[string][]string{"job": many})
		got, err := z.to(root(t, "", "nameserver 127.0.0.1\n")).Lookup(within(t, 30*time.Second), "job")
		if err != nil || len(got) != 600 {
			t.Fatal(len(got), err)
		}
		if z.questions()["job A tcp"] != 1 {
			t.Error(z.questions())
		}
	})
	t.Run("a part without TCP", func(t *testing.T) {
		z := newZone(t, map[string][]string{"job": many})
		z.with(func() { z.noTCP = true })
		got, err := z.to(root(t, "", "nameserver 127.0.0.1\n")).Lookup(within(t, 30*time.Second), "job")
		if err != nil || len(got) < 20 || len(got) >= 600 {
			t.Fatal(len(got), err)
		}
	})
}

func TestServerWithoutEDNS(t *testing.T) {
	z := newZone(t, map[string][]string{"h": {"10.0.0.1"}})
	z.with(func() { z.noEDNS = true })
	if got, err := z.to(root(t, "", "")).Lookup(within(t, 30*time.Second), "h"); err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
}

func TestServerFails(t *testing.T) {
	conf := "nameserver 10.96.0.10\noptions timeout:1 attempts:1\n"
	t.Run("SERVFAIL", func(t *testing.T) {
		z := newZone(t, map[string][]string{})
		z.with(func() { z.rcode["h"] = dns.RcodeServerFailure })
		_, err := z.to(root(t, "", conf)).Lookup(within(t, 30*time.Second), "h")
		if !errors.Is(err, ErrServer) || !strings.Contains(err.Error(), "SERVFAIL") || strings.Contains(err.Error(), "\n") {
			t.Error(err)
		}
	})
	t.Run("SERVFAIL for one candidate only", func(t *testing.T) {
		z := newZone(t, map[string][]string{"h": {"10.0.0.1"}})
		z.with(func() { z.rcode["h.example"] = dns.RcodeServerFailure })
		if _, err := z.to(root(t, "", conf+"search example\n")).Lookup(within(t, 30*time.Second), "h"); err != nil {
			t.Error(err)
		}
	})
	t.Run("silent", func(t *testing.T) {
		z := newZone(t, map[string][]string{})
		z.with(func() { z.silent["*"] = true })
		r := z.to(root(t, "10.0.0.1 known\n", conf+"search a.example b.example c.example\n"))
		if _, err := r.Lookup(within(t, 30*time.Second), "h"); !errors.Is(err, ErrServer) || !strings.Contains(err.Error(), "no answer") {
			t.Error(err)
		}
		for q := range z.questions() {
			if !strings.HasPrefix(q, "h.a.example ") {
				t.Errorf("asked %s of a silent server", q)
			}
		}
		if _, err := r.Lookup(within(t, 30*time.Second), "known"); err != nil {
			t.Error(err)
		}
	})
	t.Run("no server", func(t *testing.T) {
		r := New(Config{Root: root(t, "", ""), Dial: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("connection refused")
		}})
		if _, err := r.Lookup(within(t, 30*time.Second), "h"); !errors.Is(err, ErrServer) {
			t.Error(err)
		}
	})
	t.Run("one family silent", func(t *testing.T) {
		z := newZone(t, map[string][]string{"h": {"10.0.0.1"}})
		z.with(func() { z.silent["h AAAA"] = true })
		start := time.Now()
		got, err := z.to(root(t, "", "nameserver 10.96.0.10\n")).Lookup(within(t, 30*time.Second), "h")
		if err != nil || len(got) != 1 {
			t.Error(got, err)
		}
		if d := time.Since(start); d > 1800*time.Millisecond {
			t.Errorf("took %v", d)
		}
	})
	t.Run("caller's end", func(t *testing.T) {
		z := newZone(t, map[string][]string{})
		z.with(func() { z.silent["*"] = true })
		if _, err := z.to(root(t, "", "")).Lookup(within(t, 50*time.Millisecond), "h"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

func TestNotAName(t *testing.T) {
	r := New(Config{Root: t.TempDir()})
	for _, name := range []string{"", ".", "a..b", "a b", "x\n", strings.Repeat("a", 64), strings.Repeat("a.", 200), "a/b", "ü"} {
		if _, err := r.Lookup(t.Context(), name); !errors.Is(err, ErrNoName) {
			t.Errorf("%q: %v", name, err)
		}
		if _, err := r.Watch(name).Wait(t.Context(), nil); !errors.Is(err, ErrNoName) {
			t.Errorf("%q: Wait: %v", name, err)
		}
	}
}

func TestHostsIsReadAgain(t *testing.T) {
	dir := root(t, "10.0.0.1 a\n", "")
	r := New(Config{Root: dir, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("none") }})
	for i, text := range []string{"10.0.0.1 a\n", "10.0.0.25 a\n", "10.0.0.255 a\n"} {
		write(t, dir, "etc/hosts", text)
		got, err := r.Lookup(t.Context(), "a")
		if err != nil || got[0].String() != strings.Fields(text)[0] {
			t.Error(i, got, err)
		}
	}
}

func TestWaitFindsNameThatAppearsInDNS(t *testing.T) {
	z := newZone(t, map[string][]string{})
	r := z.to(root(t, "", "nameserver 10.96.0.10\n"))
	got, err := r.Watch("h").Wait(within(t, 60*time.Second), func(err error) {
		if !errors.Is(err, ErrNoName) {
			t.Error(err)
		}
		z.set("h", "10.0.0.1")
	})
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
}

// In a bubble: what Wait costs while a name stays away, and that the hosts file ends it.
func TestWaitPace(t *testing.T) {
	dir := root(t, "", "")
	synctest.Test(t, func(t *testing.T) {
		r := New(Config{Root: dir, Dial: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("none")
		}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		rounds := 0
		_, err := r.Watch("h").Wait(ctx, func(error) { rounds++ })
		if !errors.Is(err, ErrServer) {
			t.Error(err)
		}
		if rounds < 15 || rounds > 40 {
			t.Errorf("%d rounds in a minute", rounds)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := New(Config{Root: dir, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("none") }})
		start, rounds := time.Now(), 0
		var seen time.Duration
		got, err := r.Watch("h").Wait(t.Context(), func(error) {
			if rounds++; rounds == 8 {
				write(t, dir, "etc/hosts", "10.0.0.1 h\n")
				seen = time.Since(start)
			}
		})
		if err != nil || got[0].String() != "10.0.0.1" || time.Since(start)-seen > hostsPoll {
			t.Error(got, err, time.Since(start)-seen)
		}
	})
}
