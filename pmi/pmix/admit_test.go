package pmix_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	who "github.com/mpiup/mpiup/pmi/client"
	"github.com/mpiup/mpiup/pmi/pmix"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// Strangers get no answer, and none of them is a rank's fault.
func TestStrangersGetNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		defer l.stop()
		for name, change := range map[string]func(*bfrops.Hello){
			"guesses the namespace": func(h *bfrops.Hello) { h.Namespace = "job-0123456789abcdee" },
			"knows its beginning":   func(h *bfrops.Hello) { h.Namespace = secret[:8] },
			"has another rank":      func(h *bfrops.Hello) { h.Rank = 2 },
			"is a wildcard":         func(h *bfrops.Hello) { h.Rank = bfrops.RankWildcard },
			"is a tool":             func(h *bfrops.Hello) { h.Kind = 5 },
		} {
			h := good(0)
			change(&h)
			nc := l.pipes.dial(t)
			nc.Write(hello(h))
			if b, err := io.ReadAll(nc); err != nil || len(b) != 0 {
				t.Errorf("who %s gets %x, %v", name, b, err)
			}
		}
		begin := time.Now()
		silent := l.pipes.dial(t)
		if b, err := io.ReadAll(silent); err != nil || len(b) != 0 || time.Since(begin) != 5*time.Second {
			t.Errorf("a silent one gets %x after %v, %v", b, time.Since(begin), err)
		}
		if events, err := l.told(); err != nil || len(events) != 0 {
			t.Error(events, err)
		}
	})
}

// Those who hold connections open are a bounded number, and give way to ranks after a second.
func TestManyStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		defer l.stop()
		for range 64 {
			defer l.pipes.dial(t).Close()
		}
		begin := time.Now()
		defer l.connect(t, 0).nc.Close()
		if d := time.Since(begin); d != time.Second {
			t.Errorf("a rank got in after %v", d)
		}
	})
}

func TestCheckComesFirst(t *testing.T) {
	l := newLab(t, func(c *pmix.Config) {
		c.Check = func(context.Context, net.Conn) (who.Process, error) {
			return who.Process{}, errors.New("not one of ours")
		}
	})
	defer l.stop()
	nc := l.pipes.dial(t)
	if _, err := nc.Write([]byte{0xff}); err == nil {
		t.Error("something was read")
	}
	if b, err := io.ReadAll(nc); err != nil || len(b) != 0 {
		t.Errorf("it gets %x, %v", b, err)
	}
}

func TestRefusals(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*bfrops.Hello)
		want   string
	}{
		{"dialect", func(h *bfrops.Hello) { h.Codec, h.Version = "v51", "6.0.0" },
			`rank 1 came with PMIx "6.0.0", which cannot be served: the PMIx dialect "v51" is not known, only v41, v4, v3, v21; use Open MPI 4.0 or later`},
		{"old dialect", func(h *bfrops.Hello) { h.Codec, h.Version = "v20", "2.0.2" }, `"2.0.2", which cannot be served: the PMIx dialect "v20"`},
		{"store", func(h *bfrops.Hello) { h.Store = "shmem2" }, `"shmem2", whose layout is private to libpmix; unset PMIX_MCA_gds`},
		{"security", func(h *bfrops.Hello) { h.Security = "munge" }, `the security module "munge"; unset PMIX_MCA_psec`},
		{"buffers", func(h *bfrops.Hello) { h.Buffer = 3 }, `buffers are of kind 3`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, nil)
			defer l.stop()
			h := good(1)
			tt.change(&h)
			nc := l.pipes.dial(t)
			nc.Write(hello(h))
			b, err := io.ReadAll(nc)
			if err != nil || len(b) != 8 || int32(binary.BigEndian.Uint32(b)) != -47 {
				t.Errorf("it gets %x, %v", b, err)
			}
			l.stop()
			var refused *pmix.RefusedError
			if _, err := l.told(); !errors.As(err, &refused) || !strings.Contains(err.Error(), tt.want) {
				t.Error(err)
			}
		})
	}
}

// A child of a rank that uses PMIx too, and MPI sessions, one after the other.
func TestSeveralConnectionsOfARank(t *testing.T) {
	l := newLab(t, nil)
	defer l.stop()
	parent := l.connect(t, 0)
	child := l.connect(t, 0)
	if st := child.ask(101, 5, nil); st != 0 {
		t.Error(st)
	}
	child.nc.Close()
	l.connect(t, 0).nc.Close() // a child that just ends, while the parent goes on
	if st := parent.ask(101, 5, nil); st != 0 {
		t.Error(st)
	}
	parent.nc.Close()
	again := l.connect(t, 0)
	if st := again.ask(101, 5, nil); st != 0 {
		t.Error(st)
	}
	again.nc.Close()
	l.stop()
	events, err := l.told()
	if want := []string{"init 0", "finalize 0", "init 0", "finalize 0"}; err != nil || !slices.Equal(events, want) {
		t.Error(events, err)
	}
}
