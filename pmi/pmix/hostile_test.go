package pmix_test

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/pmi/pmix"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
	"github.com/mpiup/mpiup/test/need"
)

func world(w *bfrops.Writer) {
	bfrops.PutCounted(w, bfrops.ProcType, []bfrops.Proc{{Namespace: secret, Rank: bfrops.RankWildcard}})
	w.Infos(nil)
}

func TestUnknownCommands(t *testing.T) {
	var said []string
	l := newLab(t, func(cfg *pmix.Config) { cfg.Hooks.OnNotice = func(text string) { said = append(said, text) } })
	defer l.stop()
	c := l.connect(t, 0)
	defer c.nc.Close()
	for range 2 {
		for _, command := range []int{17, 19, 20, 21, 22, 23, 25, 29, 30, 33, 37, 38, 40, 99, 100, 255} {
			if st := c.ask(uint32(200+command), command, nil); st != -47 {
				t.Errorf("command %d: status %d", command, st)
			}
		}
	}
	if len(said) != 4 { // of those beyond what any PMIx that is known sends, once each, and no more than so many
		t.Errorf("said %q", said)
	}
	for i, number := range []string{"33", "40", "99", "100"} {
		if !strings.Contains(said[i], `PMIx "4.2.2" of a rank sent request `+number+", which mpiup does not know") || !strings.Contains(said[i], "use a newer mpiup") {
			t.Errorf("said %q", said[i])
		}
	}
}

func TestProtocolErrors(t *testing.T) {
	oversize := bfrops.AppendHeader(nil, 101, bfrops.MaxFrame+1)
	frame := func(payload ...byte) []byte {
		f := append(make([]byte, bfrops.HeaderLen), payload...)
		bfrops.FinishFrame(f, 101)
		return f
	}
	for _, tt := range []struct {
		name, want string
		bytes      []byte
	}{
		{"oversize", "bytes, where", oversize},
		{"no command", "integer", frame()},
		{"garbage", "integer", frame(0xff, 0xff, 0xff)},
		{"cut get", "GET: ", frame(2, 4, 2, 0x40, 'a')},
		{"cut commit", "COMMIT: ", frame(2, 2, 2, 1, 2)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, nil)
			defer l.stop()
			c := l.connect(t, 1)
			if _, err := c.nc.Write(tt.bytes); err != nil {
				t.Fatal(err)
			}
			if b, err := io.ReadAll(c.nc); err != nil || len(b) != 0 {
				t.Errorf("it gets %x, %v", b, err)
			}
			l.stop()
			var protocol *pmix.ProtocolError
			if _, err := l.told(); !errors.As(err, &protocol) || !strings.Contains(err.Error(), tt.want) {
				t.Error(err)
			}
		})
	}
}

// A rank cannot make the server hold any number of requests.
func TestTooManyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		defer l.stop()
		c := l.connect(t, 0)
		defer c.nc.Close()
		get := request(4, func(w *bfrops.Writer) {
			w.Group(bfrops.String, secret)
			w.Group(bfrops.ProcRank, uint64(1))
			w.Infos(nil)
			w.Group(bfrops.String, "key")
		})
		for i := range 256 {
			c.send(uint32(101+i), get)
		}
		synctest.Wait()
		c.send(999, get)
		if st := bfrops.One[int64](c.receive(999), bfrops.Status); st != -29 {
			t.Error(st)
		}
	})
}

func TestTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := []bfrops.Info{{Key: "pmix.timeout", Value: bfrops.Value{Type: bfrops.Int, Data: int64(3)}}}
		for command, more := range map[int]func(*bfrops.Writer){
			3: func(w *bfrops.Writer) {
				bfrops.PutCounted(w, bfrops.ProcType, []bfrops.Proc{{Namespace: secret, Rank: bfrops.RankWildcard}})
				w.Infos(limit)
			},
			4: func(w *bfrops.Writer) {
				w.Group(bfrops.String, secret)
				w.Group(bfrops.ProcRank, uint64(1))
				w.Infos(limit)
			},
			10: func(w *bfrops.Writer) {
				bfrops.PutCounted(w, bfrops.ProcType, []bfrops.Proc{{Namespace: secret, Rank: bfrops.RankWildcard}})
				w.Infos(limit)
			},
			11: func(w *bfrops.Writer) {
				bfrops.PutCounted(w, bfrops.ProcType, []bfrops.Proc{{Namespace: secret, Rank: 0}, {Namespace: secret, Rank: 1}})
				w.Infos(limit)
			},
			24: func(w *bfrops.Writer) {
				w.Group(bfrops.String, "group")
				bfrops.PutCounted(w, bfrops.ProcType, []bfrops.Proc{{Namespace: secret, Rank: 0}, {Namespace: secret, Rank: 1}})
				w.Infos(limit)
			},
			7: func(w *bfrops.Writer) {
				w.Group(bfrops.Uint32, uint64(0))
				w.Group(bfrops.Size, uint64(1))
				w.Group(bfrops.String, "key")
				w.Infos(append([]bfrops.Info{{Key: "pmix.wait", Value: bfrops.Value{Type: bfrops.Bool, Data: true}}}, limit...))
			},
		} {
			l := newLab(t, nil) // who gave a barrier up is still in it
			defer l.stop()
			c := l.connect(t, 0)
			defer c.nc.Close()
			begin := time.Now()
			if st := c.ask(uint32(100+command), command, more); st != -24 || time.Since(begin) != 3*time.Second {
				t.Errorf("command %d: status %d after %v", command, st, time.Since(begin))
			}
		}
	})
}

// Who gave a barrier up is still in it, and may come again: over one job and over two, on one host and over hosts.
func TestBarrierAfterATimeout(t *testing.T) {
	limit := []bfrops.Info{within(3)}
	for _, tt := range []struct {
		name    string
		command int
		procs   func(m *multi) []bfrops.Proc
		other   int // job of the process that comes late; its rank there is 1
	}{
		{"fence on a host and another", 3, func(m *multi) []bfrops.Proc { return []bfrops.Proc{m.proc(0, bfrops.RankWildcard)} }, 0},
		{"connect of two jobs", cmdConnect, func(m *multi) []bfrops.Proc { return []bfrops.Proc{m.proc(0, 0), m.proc(1, 1)} }, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMulti(t, 2, nil)
				defer m.stop()
				m.add([]int{0}, []int{1})
				m.add([]int{0}, []int{1})
				early, late := m.connect(0, 0), m.connect(tt.other, 1)
				defer early.nc.Close()
				defer late.nc.Close()
				ask := func(c *raw, tag uint32, infos []bfrops.Info) int {
					return c.ask(tag, tt.command, func(w *bfrops.Writer) {
						bfrops.PutCounted(w, bfrops.ProcType, tt.procs(m))
						w.Infos(infos)
					})
				}
				for tag := range uint32(2) {
					if st := ask(early, 101+tag, limit); st != -24 {
						t.Errorf("status %d", st)
					}
				}
				time.AfterFunc(time.Second, func() {
					if st := ask(late, 101, nil); st != 0 {
						t.Errorf("late: status %d", st)
					}
				})
				begin := time.Now()
				if st := ask(early, 103, limit); st != 0 || time.Since(begin) != time.Second {
					t.Errorf("status %d after %v", st, time.Since(begin))
				}
				synctest.Wait()
				if st := ask(early, 104, limit); st != -24 { // the next one is another
					t.Errorf("status %d", st)
				}
			})
		})
	}
}

// Who waits for a rank that is gone gets no answer; the caller is told.
func TestFenceWithARankThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		defer l.stop()
		c := l.connect(t, 0)
		defer c.nc.Close()
		c.send(101, request(3, world))
		synctest.Wait()
		l.connect(t, 1).nc.Close()
		synctest.Wait()
		var gone *kvs.GoneError
		if _, err := l.told(); !errors.As(err, &gone) || !errors.Is(err, pmix.ErrUnfinished) || !strings.Contains(err.Error(), "rank 1 closed") {
			t.Error(err)
		}
	})
}

// Processes of other namespaces and ranks that are not there are refused, and change nothing.
func TestForeignProcs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // unknown namespaces are waited for
		l := newLab(t, nil)
		defer l.stop()
		c := l.connect(t, 0)
		defer c.nc.Close()
		c.nc.SetDeadline(time.Time{})
		for _, tt := range []struct {
			command, want int
			proc          bfrops.Proc
		}{
			{3, -46, bfrops.Proc{Namespace: "other", Rank: 0}},
			{3, -27, bfrops.Proc{Namespace: secret, Rank: 2}},
			{3, -27, bfrops.Proc{Namespace: secret, Rank: 1}}, // without itself
			{10, -46, bfrops.Proc{Namespace: "other", Rank: bfrops.RankWildcard}},
		} {
			st := c.ask(101, tt.command, func(w *bfrops.Writer) {
				bfrops.PutCounted(w, bfrops.ProcType, []bfrops.Proc{tt.proc})
				w.Infos(nil)
			})
			if st != tt.want {
				t.Errorf("command %d with %v: %d", tt.command, tt.proc, st)
			}
		}
		for rank, namespace := range map[uint64]string{0: "other", 5: secret, bfrops.RankWildcard: secret} {
			st := c.ask(102, 4, func(w *bfrops.Writer) {
				w.Group(bfrops.String, namespace)
				w.Group(bfrops.ProcRank, rank)
				w.Infos(nil)
			})
			if st != -46 {
				t.Errorf("rank %d of %s: %d", rank, namespace, st)
			}
		}
	})
}

// A rank of another user has the agent, which is root, remove files of both in /dev/shm: those of the rank's user go.
func TestCleanupIsOfTheRanksUser(t *testing.T) {
	need.Root(t)
	const user = 65533
	shm, err := os.MkdirTemp("/dev/shm", "mpiup-test-*")
	need.Done(t, "shm", err, "mount a tmpfs at /dev/shm")
	defer os.RemoveAll(shm)
	var paths []string
	for _, name := range []string{"root", "tree", "rank"} {
		path := filepath.Join(shm, name)
		if err := errors.Join(os.Mkdir(path, 0o755), os.WriteFile(filepath.Join(path, "x"), nil, 0o644)); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	for _, path := range []string{paths[1], paths[2], filepath.Join(paths[2], "x")} { // the tree has a file of root's
		if err := os.Lchown(path, user, user); err != nil {
			t.Fatal(err)
		}
	}
	l := newLab(t, nil)
	defer l.stop()
	nc := dialAs(t, l, user)
	defer nc.Close()
	c := l.greet(t, nc, 0)
	st := c.ask(201, 18, func(w *bfrops.Writer) {
		w.Group(bfrops.Size, uint64(0))
		w.Infos([]bfrops.Info{{Key: "pmix.reg.cleanupdir", Value: bfrops.Value{Type: bfrops.String, Data: strings.Join(paths, ",")}},
			{Key: "pmix.clnup.recurse", Value: bfrops.Value{Type: bfrops.Bool, Data: true}}})
	})
	if st != 0 {
		t.Fatalf("status %d", st)
	}
	if err := l.srv.Cleanup(); err == nil || !strings.Contains(err.Error(), "another user") {
		t.Errorf("what stays is not told: %v", err)
	}
	for name, want := range map[string]bool{"root/x": true, "tree/x": true, "rank": false} {
		if _, err := os.Lstat(filepath.Join(shm, name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// dialAs is a connection whose socket is a user's: the kernel takes the thread's fsuid.
func dialAs(t *testing.T, l *lab, user int) net.Conn {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Setfsuid(user); err != nil {
		t.Fatal(err)
	}
	nc, err := net.Dial("tcp4", listener.Addr().String())
	if err := errors.Join(err, unix.Setfsuid(0)); err != nil {
		t.Fatal(err)
	}
	theirs, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	l.pipes.conns <- theirs
	return nc
}
