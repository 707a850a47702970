package pmi_test

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mpiup/mpiup/pmi"
	who "github.com/mpiup/mpiup/pmi/client"
	"github.com/mpiup/mpiup/pmi/kvs"
)

// descriptor is a connection that several processes share.
type descriptor struct {
	net.Conn
	pid    atomic.Int64 // who writes
	shared bool
}

func (d *descriptor) Speaker() who.Process {
	pid := int(d.pid.Load())
	return who.Process{PID: pid, Start: uint64(pid)}
}

func (d *descriptor) Shared() bool { return d.shared }

// What a second process sends over a rank's connection, line by line: "PID< LINE", "PID<< PMI-2", "PID<= EXACTLY",
// "end PID", "sleeps PID", and "wait" for the answers that come later; "> LINE" is what the server sends, "! TEXT" what it tells.
const seconds = `
# a second process is refused whatever it says, and the first goes on
1< cmd=init pmi_version=1 pmi_subversion=1
! init of 1
> cmd=response_to_init pmi_version=1 pmi_subversion=2 rc=0
2< cmd=init pmi_version=1 pmi_subversion=1
! 2 wants to be 0, which is 1
> cmd=response_to_init pmi_version=1 pmi_subversion=2 rc=-1 msg=rank_0_is_already_in_MPI_as_process_1
2< cmd=put kvsname=test key=a value=1
> cmd=refused rc=-1 msg=another_process_is_in_MPI_for_this_rank
2< cmd=nonsense
> cmd=refused rc=-1 msg=another_process_is_in_MPI_for_this_rank
2<= cmd=get kvsname=test key=a\ncmd=finalize\n
> cmd=refused rc=-1 msg=another_process_is_in_MPI_for_this_rank
> cmd=refused rc=-1 msg=another_process_is_in_MPI_for_this_rank
2<< cmd=kvs-put;key=a;value=1;
> cmd=kvs-put-response;rc=-1;errmsg=another process is in MPI for this rank;
2<< cmd=kvs-fence;thrid=5;
> cmd=kvs-fence-response;thrid=5;rc=-1;errmsg=another process is in MPI for this rank;
2<=    999cmd=kvs-put;key=a
> cmd=kvs-put-response;rc=-1;errmsg=another process is in MPI for this rank;
2<= no end of a line
2<= cmd=init pmi_version=1
1< cmd=get kvsname=test key=a
> cmd=get_result rc=1 msg=key_a_not_found value=unknown
# what it sends at once with its init is refused, too
3<= cmd=init pmi_version=1 pmi_subversion=1\ncmd=put kvsname=test key=a value=1\ncmd=put
! 3 wants to be 0, which is 1
> cmd=response_to_init pmi_version=1 pmi_subversion=2 rc=-1 msg=rank_0_is_already_in_MPI_as_process_1
> cmd=refused rc=-1 msg=another_process_is_in_MPI_for_this_rank
1< cmd=get kvsname=test key=a
> cmd=get_result rc=1 msg=key_a_not_found value=unknown
# an abort ends nothing; its answer comes when it is waited for
2< cmd=abort exitcode=3
wait
2< cmd=get_maxes
> cmd=refused rc=-1 msg=another_process_is_in_MPI_for_this_rank
2< cmd=abort exitcode=3
sleeps 2
wait
> cmd=refused rc=-1 msg=another_process_is_in_MPI_for_this_rank
3< cmd=abort exitcode=3
end 3
wait
2<< cmd=abort;isworld=TRUE;
wait
# a child that goes on with what it inherited said no init, and is the rank
5< cmd=get_appnum
> cmd=appnum rc=0 appnum=0
# a second one is the rank after the first
1< cmd=finalize
! finalize
> cmd=finalize_ack rc=0
2< cmd=init pmi_version=2 pmi_subversion=0
! init of 2
> cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0
2<< cmd=kvs-put;key=a;value=1;
> cmd=kvs-put-response;rc=0;
1< cmd=init pmi_version=1 pmi_subversion=1
! 1 wants to be 0, which is 2
> cmd=response_to_init pmi_version=1 pmi_subversion=2 rc=-1 msg=rank_0_is_already_in_MPI_as_process_2
# or after its end
end 2
4< cmd=init pmi_version=2 pmi_subversion=0
! init of 4
> cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0
`

func TestSecondProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(t, true)
		var got strings.Builder
		for line := range strings.Lines(seconds) {
			line = strings.TrimSuffix(line, "\n")
			if line != "" && strings.ContainsRune(">!", rune(line[0])) {
				continue
			}
			got.WriteString(line + "\n")
			s.play(line)
			got.WriteString(s.take())
		}
		if got.String() != seconds {
			t.Errorf("got %s", got.String())
		}
		s.end()
	})
}

// sharing is a rank's connection under test.
type sharing struct {
	t      *testing.T
	conn   *descriptor
	client net.Conn
	wg     sync.WaitGroup

	mu     sync.Mutex
	out    bytes.Buffer // guarded by mu; what the server sent and told
	ended  map[int]bool // guarded by mu
	sleeps map[int]bool // guarded by mu
}

func newShared(t *testing.T, shared bool) *sharing {
	space, err := kvs.New(kvs.Run{}).Add(kvs.Job{KVSName: "test", Size: 1, Local: []int{0}})
	if err != nil {
		t.Fatal(err)
	}
	client, server := net.Pipe()
	s := &sharing{t: t, client: client, conn: &descriptor{Conn: server, shared: shared}, ended: map[int]bool{}, sleeps: map[int]bool{}}
	srv := pmi.New(pmi.Job{Space: space,
		Processes: pmi.Processes{
			Lives:  func(p who.Process) bool { return !s.has(s.ended, p.PID) },
			Sleeps: func(p who.Process) bool { return s.has(s.sleeps, p.PID) },
		},
		Hooks: pmi.Hooks{
			OnInit:     func(_ int, p who.Process) { s.note("! init of %d\n", p.PID) },
			OnFinalize: func(int) { s.note("! finalize\n") },
			OnAbort:    func(int, int, string) { s.note("! abort\n") },
			OnSecond:   func(x who.Second) { s.note("! %d wants to be %d, which is %d\n", x.Second.PID, x.Rank, x.First.PID) },
		},
	})
	s.wg.Go(func() {
		_ = srv.Serve(t.Context(), s.conn, 0)
		server.Close()
		space.Close(nil)
	})
	s.wg.Go(func() {
		for b := make([]byte, 4096); ; {
			n, err := client.Read(b)
			if err != nil {
				return
			}
			text := string(b[:n])
			if c := text[0]; c == ' ' || c >= '0' && c <= '9' {
				text = text[6:] + "\n"
			}
			s.note("> %s", text)
		}
	})
	return s
}

func (s *sharing) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(&s.out, format, args...)
}

func (s *sharing) has(set map[int]bool, pid int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return set[pid]
}

func (s *sharing) set(set map[int]bool, pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	set[pid] = true
}

// play does what a line says.
func (s *sharing) play(line string) {
	var pid int
	switch {
	case line == "" || line[0] == '#':
	case line == "wait":
		time.Sleep(10 * time.Second) // of the bubble's time
	case strings.HasPrefix(line, "end "):
		fmt.Sscanf(line, "end %d", &pid)
		s.set(s.ended, pid)
	case strings.HasPrefix(line, "sleeps "):
		fmt.Sscanf(line, "sleeps %d", &pid)
		s.set(s.sleeps, pid)
	default:
		at := strings.IndexByte(line, '<')
		fmt.Sscanf(line, "%d<", &pid)
		s.conn.pid.Store(int64(pid))
		s.client.Write(input(s.t, line[at:]))
	}
	synctest.Wait()
}

func (s *sharing) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.out.Reset()
	return s.out.String()
}

func (s *sharing) end() {
	s.client.Close()
	s.wg.Wait()
}

// On a connection of its own a second process gets each answer at once. More of them than are remembered shut everybody
// out but the first one, until that has left.
func TestManySeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(t, false)
		s.play("1< cmd=init pmi_version=1 pmi_subversion=1")
		for pid := 2; pid < 100; pid++ {
			s.play(fmt.Sprintf("%d< cmd=init pmi_version=1 pmi_subversion=1", pid))
			s.play(fmt.Sprintf("%d< cmd=abort exitcode=1", pid))
		}
		if got := s.take(); strings.Count(got, "> cmd=refused") != 98 || strings.Count(got, "wants to be") != 98 || strings.Contains(got, "! abort") {
			t.Errorf("got %s", got)
		}
		for line, want := range map[string]string{
			"200< cmd=get_appnum": "> cmd=refused rc=-1 msg=another_process_is_in_MPI_for_this_rank\n", // as one that was forgotten
			"1< cmd=get_appnum":   "> cmd=appnum rc=0 appnum=0\n",
		} {
			s.play(line)
			if got := s.take(); got != want {
				t.Errorf("%s: %s", line, got)
			}
		}
		s.play("1< cmd=finalize")
		s.play("200< cmd=init pmi_version=1 pmi_subversion=1")
		s.take()
		s.play("200< cmd=get_appnum")
		if got := s.take(); got != "> cmd=appnum rc=0 appnum=0\n" {
			t.Errorf("after the first: %s", got)
		}
		s.end()
	})
}
