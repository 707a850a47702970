package gloo

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A connection that is slow or says too much is closed in time, and does not keep the rank's next request out.
func TestHostileRequests(t *testing.T) {
	const line, end = "PUT /global/1 HTTP/1.1\r\nHost: x\r\n", "\r\n"
	drip := func(c net.Conn, text string) { // a byte a second
		for i := range len(text) {
			if _, err := c.Write([]byte{text[i]}); err != nil {
				return
			}
			time.Sleep(time.Second) // virtual
		}
	}
	for _, tt := range []struct {
		name   string
		says   func(c net.Conn)
		deaf   bool   // does not read the answer
		answer string // how it begins; "": any, or none
		within time.Duration
	}{
		{"nothing", func(net.Conn) {}, false, "", requestBound},
		{"a slow request line", func(c net.Conn) { drip(c, line) }, false, "", requestBound},
		{"slow headers", func(c net.Conn) { io.WriteString(c, line); drip(c, strings.Repeat("A: b\r\n", 100)) }, false, "", requestBound},
		{"a slow body", func(c net.Conn) {
			io.WriteString(c, line+"Content-Length: 100\r\n"+end)
			drip(c, strings.Repeat("x", 100))
		}, false, "", requestBound}, // both of the connection's bounds end at one time, so the answer may be lost
		{"a body without an end", func(c net.Conn) {
			io.WriteString(c, line+"Transfer-Encoding: chunked\r\n"+end)
			for chunk := fmt.Sprintf("%x\r\n%s\r\n", 64<<10, strings.Repeat("x", 64<<10)); ; {
				if _, err := io.WriteString(c, chunk); err != nil {
					return
				}
			}
		}, false, "HTTP/1.1 413 ", time.Second},
		{"headers without an end", func(c net.Conn) {
			io.WriteString(c, line)
			for {
				if _, err := io.WriteString(c, "A: "+strings.Repeat("b", 100)+"\r\n"); err != nil {
					return
				}
			}
		}, false, "HTTP/1.1 431 ", time.Second},
		{"a long line", func(c net.Conn) { io.WriteString(c, "GET /"+strings.Repeat("a", 20<<10)) }, false, "HTTP/1.1 431 ", time.Second},
		{"an answer that is not read", func(c net.Conn) { io.WriteString(c, "GET /global/0 HTTP/1.1\r\nHost: x\r\n"+end) }, true, "", requestBound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(Config{Log: slog.New(slog.DiscardHandler), Full: func(err error) { t.Error(err) }})
				must(t, s.store.Put(0, "global", "0", []byte(strings.Repeat("v", 1<<20))))
				ctx, cancel := context.WithCancel(t.Context())
				d, h := newDoor(&net.TCPAddr{}), s.server(ctx, 0)
				var all sync.WaitGroup
				all.Go(func() { _ = h.Serve(d) })
				enter := func() net.Conn {
					ours, theirs := net.Pipe()
					serve, err := d.admit(ours)
					must(t, err)
					all.Go(func() { serve(ctx) })
					return theirs
				}
				begun, c := time.Now(), enter()
				all.Go(func() { tt.says(c) })
				if tt.deaf {
					time.Sleep(requestBound + time.Second) // virtual
					begun = begun.Add(time.Second)
				}
				answer, _ := io.ReadAll(c)
				if took := time.Since(begun); took > tt.within {
					t.Errorf("closed after %v", took)
				}
				if !strings.HasPrefix(string(answer), tt.answer) || tt.answer == "" && len(answer) > 64<<10 {
					t.Errorf("answered %.80q, %d bytes", answer, len(answer))
				}
				good := enter()
				all.Go(func() { io.WriteString(good, line+"Content-Length: 1\r\n"+end+"x") })
				if answer, _ := io.ReadAll(good); !strings.HasPrefix(string(answer), "HTTP/1.1 200 ") {
					t.Errorf("the next request: %.80q", answer)
				}
				c.Close()
				d.Close()
				cancel()
				_ = h.Close()
				all.Wait()
			})
		})
	}
}
