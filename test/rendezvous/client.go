package rendezvous

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// How Horovod's client asks again (horovod/common/gloo/http_store.cc and .h).
const (
	untilThere   = 10 * time.Millisecond
	tries        = 3 // for an answer that is neither 200 nor 404, and for none
	betweenTries = 500 * time.Millisecond
)

// Client is one rank's.
type Client struct {
	Server string // its host and port
	// Value is what it puts, of so many bytes.
	Value func(scope, key string, bytes int) []byte
	// Seen is called with each value that it gets, which may not be kept; nil: nobody looks.
	Seen func(scope, key string, value []byte) error

	Asked int // requests that were answered, 404 among them

	dialer net.Dialer
	lines  bufio.Reader
	buffer []byte
}

// Meet asks what a rank asks until it knows all others of a scope.
func (c *Client) Meet(ctx context.Context, s Scope) error {
	for r := range s.Meet() {
		if err := c.until(ctx, s.Name, r); err != nil {
			return err
		}
	}
	return nil
}

// Finish says that the rank has met the others of a scope.
func (c *Client) Finish(ctx context.Context, s Scope) error { return c.until(ctx, s.Name, s.Finish()) }

// until asks until the answer is what the rank waits for.
func (c *Client) until(ctx context.Context, scope string, r Request) error {
	for {
		status, value, err := c.try(ctx, scope, r)
		if err != nil {
			return fmt.Errorf("%s /%s/%s: %w", r.Method, scope, r.Key, err)
		}
		if status == http.StatusOK && r.Method == "GET" && c.Seen != nil {
			err = c.Seen(scope, r.Key, value)
		}
		if status == http.StatusOK || !r.Again || err != nil {
			return err
		}
		if err := wait(ctx, untilThere); err != nil {
			return fmt.Errorf("/%s/%s is not there: %w", scope, r.Key, err)
		}
	}
}

func (c *Client) try(ctx context.Context, scope string, r Request) (status int, value []byte, err error) {
	for range tries {
		if status, value, err = c.ask(ctx, scope, r); err == nil {
			c.Asked++
			if status == http.StatusOK || status == http.StatusNotFound {
				return status, value, nil
			}
			err = fmt.Errorf("the answer is %d", status)
		}
		if e := wait(ctx, betweenTries); e != nil {
			return 0, nil, e
		}
	}
	return 0, nil, err
}

// ask makes a connection for a request, as Horovod's client does.
func (c *Client) ask(ctx context.Context, scope string, r Request) (status int, value []byte, err error) {
	conn, err := c.dialer.DialContext(ctx, "tcp4", c.Server)
	if err != nil {
		return 0, nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	host, _, _ := strings.Cut(c.Server, ":")
	text := append(c.buffer[:0], fmt.Sprintf("%s /%s/%s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n", r.Method, scope, r.Key, host, r.Bytes)...)
	if r.Method == "PUT" {
		text = append(text, c.Value(scope, r.Key, r.Bytes)...)
	}
	c.buffer = text
	if _, err := conn.Write(text); err != nil {
		return 0, nil, err
	}
	c.lines.Reset(conn)
	answer, err := http.ReadResponse(&c.lines, nil)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	if answer.ContentLength < 0 { // chunks, or until the end: it could not tell
		return 0, nil, fmt.Errorf("the answer's length is not stated")
	}
	if int64(cap(c.buffer)) < answer.ContentLength {
		c.buffer = make([]byte, answer.ContentLength)
	}
	value = c.buffer[:answer.ContentLength]
	_, err = io.ReadFull(answer.Body, value)
	return answer.StatusCode, value, err
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
