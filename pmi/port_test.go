package pmi_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mpiup/mpiup/pmi"
	"github.com/mpiup/mpiup/test/cost"
)

// admit sends text to a gate and returns what came of it and the answer.
func admit(g *pmi.Gate, text string) (rank int, leave func(), answer string, err error) {
	client, server := net.Pipe()
	got := make(chan string)
	go func() {
		io.WriteString(client, text)
		b, _ := io.ReadAll(client)
		got <- string(b)
	}()
	if rank, leave, err = g.Admit(server); err == nil {
		err = pmi.Welcome(server, rank, 4)
	}
	server.Close()
	answer = <-got
	client.Close()
	return rank, leave, answer, err
}

func TestGate(t *testing.T) {
	g := pmi.NewGate([]int{2, 3})
	if g.ID(2) == g.ID(3) || g.ID(2) <= 0 || g.ID(9) != 0 {
		t.Fatalf("ids %d, %d, %d", g.ID(2), g.ID(3), g.ID(9))
	}
	for _, r := range []int{2, 3, 3} { // and again: one connection per MPI session
		rank, leave, answer, err := admit(g, fmt.Sprintf("cmd=initack pmiid=%d\n", g.ID(r)))
		want := fmt.Sprintf("cmd=initack rc=0\ncmd=set size=4\ncmd=set rank=%d\ncmd=set debug=0\n", r)
		if err != nil || rank != r || answer != want {
			t.Fatalf("rank %d, answer %q, %v", rank, answer, err)
		}
		leave()
		leave()
	}
	for _, bad := range []string{
		"GET / HTTP/1.1\n", "cmd=initack\n", "cmd=initack pmiid=x\n", "cmd=initack pmiid=99999999999\n", "cmd=init pmiid=1\n", strings.Repeat("x", 4096),
	} {
		if _, _, answer, err := admit(g, bad); err == nil || answer != "" {
			t.Errorf("%.20q was taken: %q", bad, answer)
		}
	}
	for i := range 20 {
		_, _, _, err := admit(g, "cmd=initack pmiid=0\n")
		if shut := errors.Is(err, pmi.ErrGateShut); err == nil || shut != (i >= 16) {
			t.Errorf("try %d: %v", i, err)
		}
	}
	if _, _, _, err := admit(g, fmt.Sprintf("cmd=initack pmiid=%d\n", g.ID(2))); !errors.Is(err, pmi.ErrGateShut) {
		t.Errorf("a guesser was heard: %v", err)
	}
}

func TestGateDoesNotWaitForSilentClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		defer client.Close()
		begin := time.Now()
		if _, _, err := pmi.NewGate([]int{0}).Admit(server); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if d := time.Since(begin); d != 5*time.Second {
			t.Errorf("after %v", d)
		}
	})
}

// The handshake leaves what follows for the server.
func TestGateReadsNoFurther(t *testing.T) {
	g := pmi.NewGate([]int{0})
	client, server := net.Pipe()
	defer client.Close()
	defer server.Close()
	go func() {
		fmt.Fprintf(client, "cmd=initack pmiid=%d\ncmd=init", g.ID(0))
	}()
	go io.Copy(io.Discard, bufio.NewReader(client))
	if _, _, err := g.Admit(server); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 8)
	if _, err := io.ReadFull(server, b); err != nil || string(b) != "cmd=init" {
		t.Errorf("%q, %v", b, err)
	}
}

func FuzzGate(f *testing.F) {
	g := pmi.NewGate([]int{0})
	f.Add("cmd=initack pmiid=5\n")
	f.Add("cmd=initack pmiid=\n")
	f.Fuzz(func(t *testing.T, line string) {
		defer cost.Watch(t, cost.Parser, len(line))()
		client, server := net.Pipe()
		go func() {
			io.WriteString(client, line+"\n")
			client.Close()
		}()
		if _, _, err := g.Admit(server); err == nil {
			t.Error("a guess was right")
		}
		server.Close()
	})
}
