package verdict

import (
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/job"
)

func raised(texts ...string) (list []Exception) {
	for _, text := range texts {
		list = append(list, Exception{Text: text})
	}
	return list
}

func TestRead(t *testing.T) {
	const lost, own = "RuntimeError: [./gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:33969", "ValueError: loss is nan at step 200"
	for _, tt := range []struct {
		name string
		said Said
		kind Kind
		line string
		echo bool
	}{
		{"nothing", Said{Last: []string{"epoch 1", "epoch 2"}}, "", "", false},
		{"an exception", Said{Raised: raised(own), Last: []string{"bye"}}, Python, own, false},
		{"all of its message", Said{Raised: raised(own + "\nmore\n\tand more")}, Python, own + " | more | and more", false},
		{"the last of two", Said{Raised: raised("KeyError: 'x'", own)}, Python, own, false},
		{"the peer's loss", Said{Raised: raised(lost)}, PeerLost, lost, true},
		{"an own one, and the connections that end with it", Said{Raised: []Exception{{Text: own}, {Text: lost, Link: job.WhileHandling}}}, Python, own, false},
		{"one that was handled long before", Said{Raised: raised(own, lost)}, PeerLost, lost, true},
		{"two losses in a chain", Said{Raised: []Exception{{Text: lost + "1"}, {Text: lost, Link: job.WhileHandling}}}, PeerLost, lost + "1", true},
		{"a message whose second line tells", Said{Raised: raised("torch.distributed.DistBackendError: NCCL error in: x.cpp:1\nremote process exited or there was a network error, NCCL version 2.21.5")},
			PeerLost, "torch.distributed.DistBackendError: NCCL error in: x.cpp:1 | remote process exited or there was a network error, NCCL version 2.21.5", true},
		{"torchrun tells of a child's", Said{Raised: raised(own, "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ")}, Python, own, false},
		{"torchrun alone", Said{Raised: raised("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ")}, "", "", false},
		{"an exception counts before lines", Said{Raised: raised(own), Last: []string{lost}}, Python, own, false},
	} {
		f, ok := Read(tt.said)
		if f.Kind != tt.kind || f.Line != tt.line || f.Echo != tt.echo || ok != (tt.kind != "") {
			t.Errorf("%s: %+v", tt.name, f)
		}
	}
}

// What a rank said early is at most probably why it ends, and never that it lost another one.
func TestReadEarly(t *testing.T) {
	const harmless, lost, full = "sh: 1: nvidia-smi: command not found", "Connection reset by peer; mirror-2 is used", "write: No space left on device"
	for _, tt := range []struct {
		name   string
		said   Said
		kind   Kind
		likely bool
	}{
		{"last words", Said{Last: []string{full}, Code: 3}, DiskFull, false},
		{"it went on after them", Said{Last: []string{full}, Early: true, Code: 3}, DiskFull, true},
		{"first words, and frames after them", Said{First: []string{full}, Last: []string{"frame #9"}, Code: 3}, DiskFull, false},
		{"first words", Said{First: []string{full}, Began: true, Last: []string{"bye"}, Code: 3}, DiskFull, true},
		{"a peer was lost at last", Said{Last: []string{lost}, Code: 3}, PeerLost, false},
		{"a peer was lost, and it went on", Said{Last: []string{lost}, Early: true, Code: 3}, "", false},
		{"a peer was lost at first", Said{First: []string{lost}, Began: true, Last: []string{"step 200"}, Code: 3}, "", false},
		{"a peer was lost, and frames after it", Said{First: []string{lost}, Last: []string{"frame #9"}, Code: 3}, PeerLost, false},
		{"a program was not found", Said{First: []string{harmless}, Code: 3}, "", false},
		{"which its shell ended of", Said{Last: []string{harmless}, Code: 127}, ProgramNotFound, false},
		{"no script", Said{Last: []string{"python3: can't open file '/none.py': [Errno 2] No such file or directory"}, Code: 2}, ProgramNotFound, false},
		{"which another program asked for", Said{Last: []string{"python3: can't open file '/none.py': [Errno 2] No such file or directory"}, Code: 3}, "", false},
		{"no module", Said{Last: []string{"/usr/bin/python3: No module named nomodule"}, Code: 1}, ProgramNotFound, false},
		{"an old exception", Said{Raised: []Exception{{Text: "KeyError: 3", Old: true}}, Code: 1}, Python, true},
		{"one on standard output", Said{Raised: []Exception{{Text: "KeyError: 3", Printed: true}}, Code: 3}, Python, false},
		{"lines after it, and Python's code", Said{Raised: []Exception{{Text: "KeyError: 3", Printed: true}}, After: true, Code: 1}, Python, true},
		{"lines after it, and another code", Said{Raised: []Exception{{Text: "KeyError: 3", Printed: true}}, After: true, Code: 3}, "", false},
		{"another code long after it", Said{Raised: []Exception{{Text: "KeyError: 3", Printed: true, Old: true}}, Code: 3}, "", false},
	} {
		if f, _ := Read(tt.said); f.Kind != tt.kind || f.Likely != tt.likely {
			t.Errorf("%s: %+v", tt.name, f)
		}
	}
}

// A program that had run for a while could be executed, whatever code it ends with at last.
func TestReadLate(t *testing.T) {
	const line = "sh: 1: upload: not found"
	for _, tt := range []struct {
		name string
		said Said
		late bool
	}{
		{"at once", Said{First: []string{line}, Last: []string{line}, Code: 127}, false},
		{"it says no more for a while", Said{First: []string{line}, Last: []string{line}, Early: true, Code: 127}, true},
		{"a while after its first line", Said{First: []string{"epoch 1", line}, Last: []string{line}, Began: true, Code: 127}, true},
		{"after many lines", Said{Last: []string{line}, Gone: true, Code: 127}, true},
	} {
		f, _ := Read(tt.said)
		c := Case{found: map[int]Finding{1: f}}
		c.Add(Fault{Event: Ended, ID: 1, Exit: job.Exit{Code: 127}})
		if again, why := c.Again(); f.Kind != ProgramNotFound || f.Late != tt.late || again != tt.late || again != (why == "") {
			t.Errorf("%s: %+v, again %t %q", tt.name, f, again, why)
		}
	}
	for code, line := range map[int]string{1: "/usr/bin/python3: No module named train", 2: "python3: can't open file '/nfs/train.py': [Errno 2] No such file or directory"} {
		f, _ := Read(Said{First: []string{line}, Last: []string{line}, Code: code})
		c := Case{found: map[int]Finding{1: f}}
		c.Add(Fault{Event: Ended, ID: 1, Exit: job.Exit{Code: code}})
		if again, why := c.Again(); f.Kind == "" || !again {
			t.Errorf("%q, which an interpreter said: %+v, again %t %q", line, f, again, why)
		}
	}
}

// Each of a run's limits has its sentence, and one exit code.
func TestLimits(t *testing.T) {
	for limit, want := range map[Limit]string{
		WholeLimit: "the job ran longer than --timeout 45s",
		StallLimit: "no rank has worked for --stall-timeout 45s",
		InitLimit:  "ranks waited in MPI_Init for --init-timeout 45s",
	} {
		c := Case{Holdup: []string{"rank 2 on w1 (pid 7) is the odd one out"}}
		c.Add(Fault{Event: TimedOut, ID: -1, Node: -1, Text: "45s", Limit: limit})
		lines := c.Explain()
		if len(lines) < 2 || lines[0] != want || lines[1] != c.Holdup[0] || c.Exit() != 110 || !c.Urgent() {
			t.Errorf("%d: %q, exit code %d", limit, lines, c.Exit())
		}
	}
}

// A crash whose functions are known needs no core file.
func TestCrashWhoseFunctionsAreKnown(t *testing.T) {
	for _, frames := range [][]string{nil, {"solve at solver.c:12"}} {
		var c Case
		c.Add(Fault{Event: Ended, ID: 0, Host: "w0", Exit: job.Exit{Signal: job.SIGSEGV}})
		v, _ := c.Verdict(Circumstances{Frames: frames})
		if asks := strings.Contains(strings.Join(v.End(LastLines{All: true}), "\n")+strings.Join(v.Advice, "\n"), "ulimit"); asks != (frames == nil) {
			t.Errorf("with %v it says %q", frames, v.End(LastLines{All: true}))
		}
	}
}

// Words so general that a log is read by them, where nothing else tells, say nothing of a rank whose end is known.
func TestGeneralWordsAreOfLogsAlone(t *testing.T) {
	n := 0
	for _, s := range Signs() {
		if !s.General {
			continue
		}
		n++
		text := strings.ReplaceAll(s.Text, "*", " x ")
		if f, ok := Read(Said{Last: []string{text}, First: []string{text}}); ok || !s.Likely || s.Weight() > Wait {
			t.Errorf("%q: %+v of %+v", text, f, s)
		}
	}
	if n < 50 {
		t.Errorf("%d general signs", n)
	}
}
