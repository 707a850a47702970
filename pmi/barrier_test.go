package pmi_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/pmi"
	"github.com/mpiup/mpiup/pmi/kvs"
)

// client is a rank's end, read line by line.
type client struct {
	net.Conn
	in   *bufio.Reader
	over chan error // what Serve returned
}

func (c *client) send(lines ...string) {
	for _, l := range lines {
		c.Write([]byte(l + "\n"))
	}
}

func (c *client) line(t *testing.T) string {
	t.Helper()
	s, err := c.in.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(s, "\n")
}

// clients are the ranks of all hosts, past init.
func clients(t *testing.T, hosts, perHost int, job pmi.Job) (ranks []*client, all []*kvs.Space) {
	all = engines(t, hosts, perHost)
	for h, e := range all {
		j := job
		j.Space = e
		srv := pmi.New(j)
		for l := range perHost {
			ours, theirs := net.Pipe()
			c := &client{Conn: ours, in: bufio.NewReader(ours), over: make(chan error, 1)}
			go func() {
				c.over <- srv.Serve(t.Context(), theirs, h*perHost+l)
				theirs.Close()
			}()
			ranks = append(ranks, c)
			c.send("cmd=init pmi_version=1 pmi_subversion=1")
			c.line(t)
		}
	}
	t.Cleanup(func() {
		for _, c := range ranks {
			c.Close()
		}
		for _, e := range all {
			e.Close(nil)
		}
	})
	return ranks, all
}

// Two hosts of two ranks: each rank is in many barriers of one group at a time, entered in another
// order, and all see what was put before.
func TestGroupBarriersOverHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tags = 40
		ranks, _ := clients(t, 2, 2, pmi.Job{})
		members := []int{0, 2, 3}
		for _, r := range members {
			ranks[r].send(fmt.Sprintf("cmd=put kvsname=x key=k%d value=v", r))
			if got := ranks[r].line(t); !strings.Contains(got, "rc=-1") {
				t.Errorf("put into another space: %s", got)
			}
			ranks[r].send(fmt.Sprintf("cmd=put key=-BC-%d value=address%d", r, r))
			ranks[r].line(t)
			go func() {
				for i := range tags {
					ranks[r].send(fmt.Sprintf("cmd=barrier_in group=3,0,2:%d", 1+(i*7+r*13)%tags))
				}
			}()
		}
		for _, r := range members {
			seen := map[string]bool{}
			for range tags {
				seen[ranks[r].line(t)] = true
			}
			for i := range tags {
				if !seen[fmt.Sprintf("cmd=barrier_out rc=0 tag=%d", i+1)] {
					t.Errorf("rank %d is not out of barrier %d", r, i+1)
				}
			}
			for _, other := range members {
				ranks[r].send(fmt.Sprintf("cmd=get key=-BC-%d", other))
				if got := ranks[r].line(t); !strings.HasSuffix(got, fmt.Sprintf("address%d", other)) {
					t.Errorf("rank %d: of rank %d %s", r, other, got)
				}
			}
		}
	})
}

// A barrier that cannot end takes the rank out of whatever else it waits for.
func TestFailedBarrierEndsSpawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := pmi.Job{Spawn: func(ctx context.Context, _ job.Spawn) (int, error) {
			<-ctx.Done()
			return 0, errors.New("too late")
		}}
		ranks, all := clients(t, 1, 2, job)
		ranks[0].send("cmd=barrier_in group=0,1:4", "mcmd=spawn\nnprocs=1\nexecname=x\ntotspawns=1\nspawnssofar=1\nendcmd")
		synctest.Wait()
		all[0].RankGone(1, "ended with exit code 1")
		var gone *kvs.GoneError
		if err := <-ranks[0].over; !errors.As(err, &gone) || gone.Set != "3-4#4" {
			t.Errorf("got %v", err)
		}
	})
}

// A rank is in so many barriers at a time, and no more; it need not read what it is answered.
func TestBarriersInFlightAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ranks, _ := clients(t, 1, 2, pmi.Job{})
		for i := range 64 {
			ranks[0].send(fmt.Sprintf("cmd=barrier_in group=0,1:%d", i))
		}
		for i := range 8 {
			ranks[1].send(fmt.Sprintf("cmd=barrier_in group=0,1:%d", i))
			ranks[1].line(t)
		}
		for i := range 9 {
			ranks[0].send(fmt.Sprintf("cmd=barrier_in group=0,1:%d", 100+i))
		}
		var protocol *pmi.ProtocolError
		if err := <-ranks[0].over; !errors.As(err, &protocol) || !strings.Contains(err.Error(), "64 barriers") {
			t.Errorf("got %v", err)
		}
	})
}
