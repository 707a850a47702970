package resolve

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mpiup/mpiup/test/cost"
	"golang.org/x/net/dns/dnsmessage"
)

func TestCandidates(t *testing.T) {
	const plain = "nameserver 10.0.0.1\nsearch a.example b.example\n"
	tests := []struct {
		name, conf, host string
		want             []string
	}{
		{"dot decides", plain, "h.x", []string{"h.x", "h.x.a.example", "h.x.b.example"}},
		{"short", plain, "h", []string{"h.j.ns.svc", "h.a.example", "h.b.example", "h"}},
		{"absolute", plain, "h.", []string{"h"}},
		{"last search line counts", plain + "search c.example\n", "h", []string{"h.j.ns.svc", "h.c.example", "h"}},
		{"service, domain from kubelet", kubelet, "w.j.ns.svc", []string{"w.j.ns.svc.corp.example"}},
		{"service in full", kubelet, "w.j.ns.SVC.corp.example", []string{"w.j.ns.SVC.corp.example"}},
		{"service, no search line", "nameserver 10.0.0.1\noptions ndots:5", "w.j.ns.svc", []string{"w.j.ns.svc"}},
		{"service of another cluster first as it stands", kubelet, "w.j.ns.svc.other", []string{"w.j.ns.svc.other",
			"w.j.ns.svc.other.ns.svc.corp.example", "w.j.ns.svc.other.svc.corp.example", "w.j.ns.svc.other.corp.example",
			"w.j.ns.svc.other.node.example", "w.j.ns.svc.other.job.ns.svc.cluster.local"}},
		{"domain from a namespace entry", "search ns.svc.d.example\n", "w.j.ns.svc", []string{"w.j.ns.svc.d.example"}},
		{"sibling", kubelet + "search ns.svc.corp.example\n", "sibling", []string{"sibling.j.ns.svc.corp.example", "sibling.ns.svc.corp.example", "sibling"}},
		{"ndots", "search a.example\noptions ndots:2\n", "h.x", []string{"h.x.a.example", "h.x"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, parseConf([]byte(tc.conf)).candidates(tc.host, "j.ns.svc")); d != "" {
				t.Error(d)
			}
		})
	}
}

// A pod whose resolv.conf has no search list (dnsPolicy None) finds its job's hosts by what its own name says of the cluster; what the list has
// comes first, and a pod without a name has nothing.
func TestNoSearchList(t *testing.T) {
	const none, own = "nameserver 10.0.0.1\n", "nameserver 10.0.0.1\nsearch corp.example\n"
	for _, tc := range []struct {
		name, conf, domain, host string
		want                     []string
	}{
		{"MPI Operator's", none, "pi.team.svc.k8s.example", "pi-worker-0.pi.team.svc", []string{"pi-worker-0.pi.team.svc.k8s.example"}},
		{"Trainer's", none, "pi.team.svc.k8s.example", "pi-node-0-0.pi",
			[]string{"pi-node-0-0.pi", "pi-node-0-0.pi.team.svc.k8s.example", "pi-node-0-0.pi.svc.k8s.example", "pi-node-0-0.pi.k8s.example"}},
		{"a sibling", none, "pi.team.svc.k8s.example", "pi-1", []string{"pi-1.pi.team.svc.k8s.example", "pi-1.team.svc.k8s.example", "pi-1.svc.k8s.example", "pi-1.k8s.example", "pi-1"}},
		{"in full", none, "pi.team.svc.k8s.example", "pi-1.pi.team.svc.k8s.example", []string{"pi-1.pi.team.svc.k8s.example"}},
		{"a search list without the cluster", own, "pi.team.svc.k8s.example", "pi-1.pi",
			[]string{"pi-1.pi", "pi-1.pi.corp.example", "pi-1.pi.team.svc.k8s.example", "pi-1.pi.svc.k8s.example", "pi-1.pi.k8s.example"}},
		{"a pod without a name", none, "", "pi-worker-0.pi.team.svc", []string{"pi-worker-0.pi.team.svc"}},
		{"kubelet's list counts", kubelet, "pi.team.svc.other.example", "w.j.ns.svc", []string{"w.j.ns.svc.corp.example"}},
	} {
		if d := cmp.Diff(tc.want, parseConf([]byte(tc.conf)).within(tc.domain).candidates(tc.host, tc.domain)); d != "" {
			t.Errorf("%s: %s", tc.name, d)
		}
	}
}

func TestParseConf(t *testing.T) {
	c := parseConf([]byte("# c\nnameserver fe80::1%eth0\nnameserver bad\nnameserver ::1 ; x\nnameserver 10.0.0.1\nnameserver 10.0.0.2\n" +
		"search\noptions ndots:99 timeout:1 attempts:-1 use-vc edns0 rotate\noptions attempts:9\n"))
	if d := cmp.Diff([]string{"[fe80::1%eth0]:53", "[::1]:53", "10.0.0.1:53"}, c.servers); d != "" {
		t.Error(d)
	}
	if c.ndots != maxNdots || c.attempts != maxAttempts || !c.tcp || c.timeout.Seconds() != 1 {
		t.Errorf("%+v", c)
	}
	if d := cmp.Diff([]string{"127.0.0.1:53"}, parseConf(nil).servers); d != "" {
		t.Error(d)
	}
}

// The bytes of a question, from RFC 1035 4.1 and RFC 6891 6.1.2.
func TestQuestionGolden(t *testing.T) {
	q, err := newQuestion(0x1234, "a.svc", way{typ: dnsmessage.TypeAAAA}, true)
	if err != nil {
		t.Fatal(err)
	}
	want := "1234" + "0100" + "0001" + "0000" + "0000" + "0001" + // id, RD, counts
		"0161" + "03737663" + "00" + "001c" + "0001" + // a.svc. AAAA IN
		"00" + "0029" + "04d0" + "00000000" + "0000" // OPT, 1232
	if got := hex.EncodeToString(q.wire); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// The DO bit is the first of OPT's flags (RFC 3225, 3), CD the fifth from the right of the header's (RFC 2535, 6.1).
func TestQuestionInAnotherWay(t *testing.T) {
	q, err := newQuestion(0x1234, "a", way{typ: 13, do: true, cd: true}, true)
	if err != nil {
		t.Fatal(err)
	}
	want := "1234" + "0110" + "0001" + "0000" + "0000" + "0001" + "0161" + "00" + "000d" + "0001" +
		"00" + "0029" + "04d0" + "00008000" + "0000"
	if got := hex.EncodeToString(q.wire); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestReplyMustMatch(t *testing.T) {
	q, _ := newQuestion(7, "h", way{typ: dnsmessage.TypeA}, false)
	good := append([]byte(nil), q.wire...)
	good[2] |= 0x80
	for name, change := range map[string]func([]byte){
		"other id":      func(b []byte) { b[1]++ },
		"a question":    func(b []byte) { b[2] &^= 0x80 },
		"other name":    func(b []byte) { b[13] = 'x' },
		"other type":    func(b []byte) { b[16] = 28 },
		"cut":           func(b []byte) { b[7] = 9 },
		"short message": nil,
	} {
		b := append([]byte(nil), good...)
		if change == nil {
			b = b[:5]
		} else {
			change(b)
		}
		if rep, err := q.parse(b); err == nil {
			t.Errorf("%s: taken: %+v", name, rep)
		}
	}
	if _, err := q.parse(good); err != nil {
		t.Error(err)
	}
}

func FuzzReply(f *testing.F) {
	q, _ := newQuestion(7, "h", way{typ: dnsmessage.TypeA}, true)
	f.Add(q.wire)
	f.Add(append([]byte{0, 7, 0x82, 0}, q.wire[4:]...))
	f.Fuzz(func(t *testing.T, b []byte) {
		defer cost.Watch(t, cost.Parser, len(b))()
		rep, err := q.parse(b)
		if err != nil {
			return
		}
		for _, a := range rep.addrs {
			if !a.Is4() {
				t.Error(a)
			}
		}
	})
}

func FuzzHosts(f *testing.F) {
	f.Add("127.0.0.1 localhost # x\n::1 ip6-localhost\n")
	f.Fuzz(func(t *testing.T, text string) {
		defer cost.Watch(t, cost.Parser, len(text))()
		for name, addrs := range parseHosts([]byte(text)) {
			if len(addrs) == 0 || name != key(name) && strings.TrimRight(name, ".") == name {
				t.Errorf("%q %v", name, addrs)
			}
		}
	})
}

func FuzzConf(f *testing.F) {
	f.Add(kubelet, "h.x")
	f.Fuzz(func(t *testing.T, text, name string) {
		defer cost.Watch(t, cost.Parser, len(text)+len(name))()
		c := parseConf([]byte(text))
		if len(c.servers) == 0 || len(c.servers) > maxServers || c.attempts < 1 || c.timeout <= 0 {
			t.Errorf("%+v", c)
		}
		if n := len(c.candidates(name, "j.ns.svc")); validName(name) && (n == 0 || n > maxSearch+2) {
			t.Errorf("%d candidates", n)
		}
	})
}
