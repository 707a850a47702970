package scrape

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

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
	all.Go(func() { s.Serve(limit(at, most)) })
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
