package pmi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/pmi"
	who "github.com/mpiup/mpiup/pmi/client"
	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/test/golden"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A transcript is a conversation of ranks with the server of one host. What the server does is
// golden and rewritten by -update:
//
//	job SIZE [WORD...]   first line; a word is the mapping, or "spawns" where processes can be
//	                     started, "spawned" where the job was, "plain" without groups
//	0< TEXT              rank 0 sends a line
//	0<< TEXT             rank 0 sends a PMI-2 message, the length is put before it
//	0<= TEXT             rank 0 sends exactly this (Go escapes)
//	0.                   rank 0 hangs up
//	gone 0               the process of rank 0 ended
//	0> TEXT              the server sent a line, or a PMI-2 message with its length
//	0! TEXT              a hook was called, or Serve returned
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.transcript")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".transcript"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var got string
			synctest.Test(t, func(t *testing.T) { got = converse(t, string(want)) })
			golden.Is(t, file, got)
		})
	}
}

// stage runs one transcript.
type stage struct {
	t       *testing.T
	clients []net.Conn
	wg      sync.WaitGroup

	mu  sync.Mutex
	out []bytes.Buffer // guarded by mu; from the server, by rank
	log []string       // guarded by mu; hooks and returns
}

func (s *stage) note(rank int, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, fmt.Sprintf("%d! ", rank)+fmt.Sprintf(format, args...))
}

func converse(t *testing.T, script string) string {
	var out strings.Builder
	s := &stage{t: t}
	var space *kvs.Space
	for line := range strings.Lines(script) {
		line = strings.TrimSuffix(line, "\n")
		rank, what, _ := cutRank(line)
		switch {
		case line == "" || line[0] == '#':
			out.WriteString(line + "\n")
			continue
		case what != "" && (what[0] == '>' || what[0] == '!'):
			continue // golden
		case strings.HasPrefix(line, "job "):
			space = s.begin(strings.Fields(line))
		case strings.HasPrefix(line, "gone "):
			r, _ := strconv.Atoi(line[len("gone "):])
			space.RankGone(r, "ended with exit code 1")
		case what == ".":
			s.clients[rank].Close()
		default:
			s.clients[rank].Write(input(t, what))
		}
		synctest.Wait()
		out.WriteString(line + "\n")
		s.drain(&out)
	}
	for _, c := range s.clients {
		c.Close()
	}
	space.Close(nil)
	s.wg.Wait()
	return out.String()
}

func cutRank(line string) (rank int, what string, ok bool) {
	i := strings.IndexAny(line, "<>!.")
	if i < 1 {
		return 0, "", false
	}
	rank, err := strconv.Atoi(line[:i])
	if err != nil {
		return 0, "", false
	}
	return rank, line[i:], true
}

func input(t testing.TB, what string) []byte {
	if text, ok := strings.CutPrefix(what, "<< "); ok {
		return fmt.Appendf(nil, "%6d%s", len(text), text)
	}
	if text, ok := strings.CutPrefix(what, "<= "); ok {
		raw, err := strconv.Unquote(`"` + text + `"`)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		return []byte(raw)
	}
	return []byte(strings.TrimPrefix(what, "< ") + "\n")
}

func (s *stage) begin(f []string) *kvs.Space {
	size, err := strconv.Atoi(f[1])
	if err != nil {
		s.t.Fatal(err)
	}
	cfg := kvs.Job{KVSName: "m0-7f3a", Size: size}
	for r := range size {
		cfg.Local = append(cfg.Local, r)
	}
	words := f[2:]
	spawned := slices.Contains(words, "spawned")
	if spawned {
		cfg.Preput = []job.Pair{{Key: "PARENT_ROOT_PORT_NAME", Value: []byte("tag#0$a b$")}}
	}
	space, err := kvs.New(kvs.Run{}).Add(cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	job := pmi.Job{Space: space, Universe: 2 * size, Spawned: spawned, PlainBarriers: slices.Contains(words, "plain"), Hooks: pmi.Hooks{
		OnInit:     func(r int, _ who.Process) { s.note(r, "init") },
		OnFinalize: func(r int) { s.note(r, "finalize") },
		OnAbort:    func(r, code int, text string) { s.note(r, "abort %d %q", code, text) },
	}}
	if slices.Contains(words, "spawns") {
		job.Spawn = s.spawn
	}
	if len(words) > 0 && words[0][0] == '(' {
		job.Mapping = words[0]
	}
	srv := pmi.New(job)
	s.out = make([]bytes.Buffer, size)
	for r := range size {
		client, server := net.Pipe()
		s.clients = append(s.clients, client)
		s.wg.Go(func() {
			err := srv.Serve(context.Background(), server, r)
			s.note(r, "end: %v", err)
			server.Close()
		})
		s.wg.Go(func() {
			b := make([]byte, 4096)
			for {
				n, err := client.Read(b)
				if err != nil {
					return
				}
				s.mu.Lock()
				s.out[r].Write(b[:n])
				s.mu.Unlock()
			}
		})
	}
	return space
}

// spawn is the launcher's answer: all can be started but what is under /no.
func (s *stage) spawn(_ context.Context, r job.Spawn) (number int, err error) {
	for i, p := range r.Programs {
		s.note(r.Parent, "spawn %d: %d of %q %+v", i, p.Procs, p.Argv, job.SpawnProgram{Hosts: p.Hosts, Dir: p.Dir, Env: p.Env, MapBy: p.MapBy, PerHost: p.PerHost})
	}
	for _, p := range r.Preput {
		s.note(r.Parent, "preput %s=%q", p.Key, p.Value)
	}
	if strings.HasPrefix(r.Programs[0].Argv[0], "/no/") {
		return 0, errors.New("no such program on any host")
	}
	return 1, nil
}

func (s *stage) drain(out *strings.Builder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortStableFunc(s.log, func(a, b string) int { return strings.Compare(a[:2], b[:2]) }) // ranks end in any order
	for _, l := range s.log {
		out.WriteString(l + "\n")
	}
	s.log = nil
	for r := range s.out {
		for line := range strings.Lines(s.out[r].String()) {
			if len(line) > pmi.MaxReply && !strings.HasPrefix(line, " ") {
				s.t.Errorf("a reply of %d bytes, which old clients would cut", len(line))
			}
			fmt.Fprintf(out, "%d> %s\n", r, strings.TrimSuffix(line, "\n"))
		}
		s.out[r].Reset()
	}
}

// requests are what the clients of all transcripts send, one string per rank and file.
func requests(t testing.TB) (v1, v2 []string) {
	files, _ := filepath.Glob("testdata/*.transcript")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			_, what, ok := cutRank(strings.TrimSuffix(line, "\n"))
			switch {
			case ok && strings.HasPrefix(what, "<< "):
				v2 = append(v2, string(message2(what[3:])))
			case ok && (strings.HasPrefix(what, "< ") || strings.HasPrefix(what, "<= mcmd")):
				v1 = append(v1, string(input(t, what)))
			}
		}
	}
	return v1, v2
}

func message2(text string) []byte { return fmt.Appendf(nil, "%6d%s", len(text), text) }

// What is written comes back as it was, in both dialects, for messages without blank or
// semicolon in them.
func TestRoundTrip(t *testing.T) {
	m := &pmi.Message{Name: "put", Pairs: []pmi.Pair{{Key: "kvsname", Value: "K"}, {Key: "key", Value: "k"}, {Key: "value", Value: "a=b,(1)$"}, {Key: "empty"}}}
	p1, err := pmi.ParsePMI1(strings.TrimSuffix(string(pmi.AppendPMI1(nil, m)), "\n"))
	if err != nil || fmt.Sprint(p1.Name, p1.Pairs) != fmt.Sprint(m.Name, m.Pairs) {
		t.Errorf("%v, %v", p1, err)
	}
	p2, err := pmi.ParsePMI2(string(pmi.AppendPMI2(nil, m))[6:])
	if err != nil || fmt.Sprint(p2.Name, p2.Pairs) != fmt.Sprint(m.Name, m.Pairs) {
		t.Errorf("%v, %v", p2, err)
	}
}
