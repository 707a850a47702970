package session

import (
	"context"
	"net"
	"strings"
	"testing"
)

// This process is none of the ranks of any session, and its connection is refused.
func TestAStrangerMayNotSpeak(t *testing.T) {
	a := newTable(t)
	c := newClient(t, a, '1', "life-1")
	c.dial(false)
	c.launch(1, 1, "exec sleep 1000")
	c.until(started)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	mine, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	theirs, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	s := c.session()
	if _, err := s.exchange.MaySpeak(context.Background(), nil, theirs); err == nil || !strings.Contains(err.Error(), "none of this host's ranks") {
		t.Error(err)
	}
	mine.Close()
	if _, err := s.exchange.MaySpeak(context.Background(), nil, theirs); err == nil || !strings.Contains(err.Error(), "or closed") {
		t.Error(err)
	}
}
