package gloo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mpiup/mpiup/test/cost"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// served is a running server for ranks; its end is the test's.
func served(t testing.TB, cfg Config, ranks ...int) *Server {
	t.Helper()
	cfg.Log = slog.New(slog.DiscardHandler)
	if cfg.Full == nil {
		cfg.Full = func(err error) { t.Error(err) }
	}
	s := New(cfg)
	if err := s.Open(ranks); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() { defer close(over); s.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-over })
	return s
}

// ask is a request as Horovod's client makes it: a connection of its own.
func ask(t testing.TB, s *Server, rank int, method, path, body string) (status int, answer string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := http.NewRequest(method, fmt.Sprintf("http://127.0.0.1:%d%s", s.Port(rank), path), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.ContentLength != int64(len(b)) {
		t.Errorf("%s %s: the length %d is not stated", method, path, len(b))
	}
	return resp.StatusCode, string(b)
}

func TestServer(t *testing.T) {
	var mu sync.Mutex
	var sent []Update
	s := served(t, Config{Send: func(u Update) { mu.Lock(); defer mu.Unlock(); sent = append(sent, u) }}, 4, 5)
	big := strings.Repeat("v", 100_000)
	for _, tt := range []struct {
		rank         int
		method, path string
		body         string
		status       int
		answer       string
	}{
		{4, "GET", "/global/4", "", 404, ""},
		{4, "PUT", "/global/4", big, 200, ""},
		{5, "GET", "/global/4", "", 200, big},
		{5, "PUT", "/local_w0-0/1", "x", 200, ""},
		{4, "DELETE", "/global/4", "", 200, ""},
		{4, "GET", "/global/4", "", 404, ""},
		{4, "GET", "/", "", 400, ""},
		{4, "GET", "/global", "", 400, ""},
		{4, "GET", "/a/b/c", "", 400, ""},
		{4, "PUT", "/global/", "x", 400, ""},
		{4, "POST", "/global/4", "x", 405, ""},
		{4, "PUT", "/global/" + strings.Repeat("k", maxName+1), "x", 400, ""},
		{4, "PUT", "/global/k", strings.Repeat("v", maxValue+1), 413, ""},
	} {
		status, got := ask(t, s, tt.rank, tt.method, tt.path, tt.body)
		if status != tt.status || got != tt.answer && status != 0 {
			t.Errorf("%s %.40s of rank %d: %d %.40q, want %d", tt.method, tt.path, tt.rank, status, got, tt.status)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(sent) != 2 || sent[0].Key != "4" || sent[0].Done || !sent[1].Done {
		t.Errorf("other hosts are told %d things", len(sent))
	}
}

// Whoever is none of the ranks' processes learns and changes nothing.
func TestStrangers(t *testing.T) {
	s := served(t, Config{Check: func(context.Context, int, net.Conn) error { return errors.New("a stranger") }, Send: func(Update) { t.Error("told") }}, 0)
	if status, text := ask(t, s, 0, "PUT", "/global/0", "x"); status != 0 {
		t.Errorf("%d %s", status, text)
	}
	if got := known(&s.store, 0, "global", "0"); got != "-" {
		t.Errorf("a stranger put %s", got)
	}
}

// Each port's connections are checked as its rank's.
func TestCheckKnowsTheRank(t *testing.T) {
	var mu sync.Mutex
	var asked []int
	s := served(t, Config{Check: func(_ context.Context, rank int, _ net.Conn) error {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, rank)
		return nil
	}}, 4, 5)
	for _, rank := range []int{5, 4} {
		if status, text := ask(t, s, rank, "PUT", "/local_w0/0", "x"); status != 200 {
			t.Errorf("%d %s", status, text)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if fmt.Sprint(asked) != "[5 4]" {
		t.Errorf("asked for ranks %v", asked)
	}
}

// The user is told once that something found no room, whether of a rank here or of another host; the rank gets 507.
func TestFullIsToldOnce(t *testing.T) {
	for _, other := range []bool{false, true} {
		told := 0
		s := New(Config{Full: func(err error) {
			if told++; !errors.Is(err, ErrFull) {
				t.Error(err)
			}
		}})
		s.store.bytes = maxBytes
		for range 2 {
			if other {
				s.Apply(Update{Scope: "global", Key: "0", Rank: 1})
				continue
			}
			w := httptest.NewRecorder()
			s.handler(0).ServeHTTP(w, httptest.NewRequest("PUT", "/global/0", strings.NewReader("x")))
			if w.Code != 507 {
				t.Errorf("answered %d", w.Code)
			}
		}
		if told != 1 {
			t.Errorf("told %d times", told)
		}
	}
}

// Connections that say nothing are let go of, and do not keep the rank out.
func TestSilentConnections(t *testing.T) {
	s := served(t, Config{}, 0)
	for range maxConns - 1 {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.Port(0)))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	if status, text := ask(t, s, 0, "PUT", "/global/0", "x"); status != 200 {
		t.Errorf("%d %s", status, text)
	}
}

// A rank has so many connections and no more; one that is over makes room for another.
func TestConnectionsAreBounded(t *testing.T) {
	d := newDoor(&net.TCPAddr{})
	ctx, cancel := context.WithCancel(t.Context())
	var conn net.Conn // that was let in last
	var over chan struct{}
	var served []chan struct{}
	enter := func() error {
		ours, theirs := net.Pipe()
		t.Cleanup(func() { theirs.Close() })
		serve, err := d.admit(ours)
		if err != nil {
			return err
		}
		over = make(chan struct{})
		served = append(served, over)
		go func(over chan struct{}) { defer close(over); serve(ctx) }(over)
		conn, err = d.Accept()
		return err
	}
	for range 32 {
		must(t, enter())
	}
	if err := enter(); err == nil || err.Error() != "the rank has 32 connections already" {
		t.Errorf("the 33rd: %v", err)
	}
	conn.Close()
	<-over
	must(t, enter())
	cancel()
	for _, over := range served {
		<-over
	}
}

// What a rank puts counts when it is whole, so that much of it at once would be held and counted by nobody.
func TestOneBodyAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Log: slog.New(slog.DiscardHandler), Full: func(err error) { t.Error(err) }})
		h := s.handler(0)
		var now, most atomic.Int32
		var all sync.WaitGroup
		for i := range maxConns {
			all.Go(func() {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest("PUT", fmt.Sprintf("/global/%d", i), &slowBody{now: &now, most: &most}))
				if w.Code != 200 {
					t.Errorf("%d", w.Code)
				}
			})
		}
		all.Wait()
		if n := most.Load(); n != 1 {
			t.Errorf("%d at a time", n)
		}
	})
}

// slowBody is a byte that takes a second, and counts those that are read at one time.
type slowBody struct {
	now, most *atomic.Int32
	read      bool
}

func (b *slowBody) Read(p []byte) (int, error) {
	if b.read {
		b.now.Add(-1)
		return 0, io.EOF
	}
	b.read = true
	b.most.Store(max(b.most.Load(), b.now.Add(1)))
	time.Sleep(time.Second) // virtual
	return copy(p, "x"), nil
}

// A rendezvous of many ranks over two hosts, twice, as Horovod does it: everybody's value is seen by all.
func TestRendezvous(t *testing.T) {
	const ranks = 16
	var servers [2]*Server
	var ways [2]chan Update // a store sends while it is locked, as a session's queue takes what it is given
	var carried sync.WaitGroup
	for i := range servers {
		ways[i] = make(chan Update, 2*2*ranks)
		var mine []int
		for r := range ranks / 2 {
			mine = append(mine, i*ranks/2+r)
		}
		servers[i] = served(t, Config{Send: func(u Update) { ways[i] <- u }}, mine...)
	}
	for i, way := range ways {
		carried.Go(func() {
			for u := range way {
				servers[1-i].Apply(u)
			}
		})
	}
	for round := range 2 {
		var wg sync.WaitGroup
		for r := range ranks {
			wg.Go(func() {
				s := servers[r/(ranks/2)]
				ask(t, s, r, "PUT", fmt.Sprintf("/global/%d", r), fmt.Sprint(round, r))
				for other := range ranks {
					end := time.Now().Add(time.Minute)
					for {
						status, v := ask(t, s, r, "GET", fmt.Sprintf("/global/%d", other), "")
						if status == 200 {
							if v != fmt.Sprint(round, other) {
								t.Errorf("rank %d meets %q of rank %d in round %d", r, v, other, round)
							}
							break
						}
						if status != 404 || time.Now().After(end) {
							t.Errorf("rank %d: %d %s", r, status, v)
							return
						}
					}
				}
				ask(t, s, r, "DELETE", fmt.Sprintf("/global/%d", r), "")
			})
		}
		wg.Wait()
	}
	for _, way := range ways {
		close(way)
	}
	carried.Wait()
	for i, s := range servers {
		if len(s.store.lives) != 0 {
			t.Errorf("host %d keeps %d scopes", i, len(s.store.lives))
		}
	}
}

// FuzzRequest gives the port whatever a rank may write.
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{"GET /global/0 HTTP/1.1\r\nHost: a\r\n\r\n", "PUT /a/b HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
		"DELETE /a/b HTTP/1.0\r\n\r\n", "PUT /a/b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"} {
		f.Add([]byte(seed))
	}
	s := served(f, Config{Full: func(error) {}}, 0)
	f.Fuzz(func(t *testing.T, b []byte) {
		// Twice in a row: on a busy machine the server may still be busy with connections of inputs and tests before.
		cost.AtMost(t, cost.Parser, len(b), func() {
			c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.Port(0)))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.Write(b)
			c.(*net.TCPConn).CloseWrite()
			io.Copy(io.Discard, io.LimitReader(c, 1<<20))
		})
		s.store.mu.Lock()
		defer s.store.mu.Unlock()
		if s.store.bytes < 0 || s.store.bytes > maxBytes {
			t.Errorf("%d bytes", s.store.bytes)
		}
	})
}
