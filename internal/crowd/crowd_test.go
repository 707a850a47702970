package crowd

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"
)

func TestGreediestGoesFirst(t *testing.T) {
	greedy, launcher, other := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.3")
	var h Crowd[*int]
	named := map[*int]string{}
	add := func(name string, from netip.Addr) string {
		c := new(int)
		named[c] = name
		return named[h.Add(c, from, 4)]
	}
	for i, tt := range []struct {
		name  string
		from  netip.Addr
		evict string
	}{
		{"launcher", launcher, ""}, {"g1", greedy, ""}, {"g2", greedy, ""}, {"g3", greedy, ""},
		{"g4", greedy, "g1"}, {"other", other, "g2"}, {"g5", greedy, "g3"},
		{"launcher again", launcher, "g4"},
	} {
		if got := add(tt.name, tt.from); got != tt.evict {
			t.Errorf("%d: %s evicts %q, not %q", i, tt.name, got, tt.evict)
		}
	}
	for c := range named {
		h.Remove(c)
	}
	if len(h.conns) > 0 {
		t.Error("some are left")
	}
}

// Somebody opens connections to the HTTP port without end and says nothing: whoever scrapes slowly, from
// elsewhere, keeps its own.
func TestLimitedListener(t *testing.T) {
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const most = 4
	served := make(chan struct{})
	slow := make(chan struct{})
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(served)
			<-slow
		}
		w.Write([]byte("ok"))
	})}
	var all sync.WaitGroup
	all.Go(func() { s.Serve(Limit(at, most)) })
	from := func(ip string) *http.Client {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
		return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				return d.DialContext(ctx, network, addr)
			}}}
	}
	got := make(chan error, 1)
	all.Go(func() {
		r, err := from("127.0.0.2").Get("http://" + at.Addr().String() + "/slow")
		if err == nil {
			r.Body.Close()
		}
		got <- err
	})
	<-served
	for range 4 * most {
		c, err := net.Dial("tcp", at.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	r, err := from("127.0.0.3").Get("http://" + at.Addr().String() + "/healthz") // behind all of them
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	close(slow)
	if err := <-got; err != nil {
		t.Errorf("the slow scrape was cut: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s.Shutdown(ctx)
	s.Close()
	all.Wait()
}
