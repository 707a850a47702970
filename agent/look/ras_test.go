package look

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/cost"
)

// healthy and lagging are pages in the form of NCCL's src/ras/client_support.cc.
const head = `NCCL version 2.28.3 compiled with CUDA 13.0
CUDA runtime version 13000, driver version 13000

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      2          2            1          4        4

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         2         2         4         4   RUNNING  %s

Errors
======

%sWarnings
========

%s`

var (
	healthy = fmt.Sprintf(head, "OK", "", "")
	lagging = fmt.Sprintf(head, "MISMATCH", "", `#0-0 (3e21b8bc9b4a6c6d) MISMATCH
  Communicator ranks have different AllReduce operation counts
  3 ranks have launched up to operation 20
  Rank 2 has launched up to operation 19 -- GPU 0 managed by process 4711 on node 10.0.0.3

`)
	dead = fmt.Sprintf(head, "INCOMPLETE", `DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 4711 on node 10.0.0.3 managing GPU 0

`, "")
)

// serve answers one client as NCCL does.
func serve(t *testing.T, protocol, page string) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		for s := bufio.NewScanner(c); s.Scan(); {
			switch command := strings.ToLower(s.Text()); {
			case strings.HasPrefix(command, "client protocol "):
				fmt.Fprintln(c, protocol)
			case strings.HasPrefix(command, "timeout "):
				fmt.Fprintln(c, "OK")
			case command == "verbose status":
				fmt.Fprint(c, page)
				return
			}
		}
	}()
	return netip.MustParseAddrPort(l.Addr().String())
}

func TestAsk(t *testing.T) {
	for _, c := range []struct {
		name, protocol, page string
		trust                error
		want                 []string
		err                  string
	}{
		{"nothing wrong", "SERVER PROTOCOL 2", healthy, nil, nil, ""},
		{"a rank lags", "SERVER PROTOCOL 2", lagging, nil, []string{"#0-0 (3e21b8bc9b4a6c6d) MISMATCH", "Communicator ranks have different AllReduce operation counts",
			"3 ranks have launched up to operation 20", "Rank 2 has launched up to operation 19 -- GPU 0 managed by process 4711 on node 10.0.0.3"}, ""},
		{"a process is dead", "SERVER PROTOCOL 2", dead, nil, []string{"DEAD", "1 job process is considered dead (unreachable via the RAS network)", "Process 4711 on node 10.0.0.3 managing GPU 0"}, ""},
		{"much", "SERVER PROTOCOL 3", "Errors\n" + strings.Repeat("Rank\x1b[2J\n", 50), nil, append(slices.Repeat([]string{`Rank\u001b[2J`}, maxLines), "and more"), ""},
		{"somebody else's", "SERVER PROTOCOL 2", lagging, errors.New("not ours"), nil, "not ours"},
		{"another service", "220 mail", "", nil, nil, "220 mail"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			got, err := AskRAS(ctx, serve(t, c.protocol, c.page), func(net.Conn) error { return c.trust })
			if !slices.Equal(got, c.want) || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%q, %v; want %q, %q", got, err, c.want, c.err)
			}
		})
	}
}

func TestAddress(t *testing.T) {
	for variable, want := range map[string]string{"": "127.0.0.1:28028", "localhost:9": "127.0.0.1:9", "[::1]:9": "[::1]:9", "10.0.0.1:9": "", "elsewhere:9": ""} {
		at, ok := RASAddress(variable)
		if ok != (want != "") || ok && at.String() != want {
			t.Errorf("%q is %v, %v", variable, at, ok)
		}
	}
}

func FuzzTold(f *testing.F) {
	f.Add(lagging)
	f.Fuzz(func(t *testing.T, page string) {
		defer cost.Watch(t, cost.Parser, len(page))()
		if l := toldByRAS(page); len(l) > maxLines+1 {
			t.Errorf("%d lines", len(l))
		}
	})
}
