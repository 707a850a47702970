package verdict

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/test/cost"
)

// The root of exceptions that came of each other is the reason, unless it is a look-up that may fail or says nothing; what it led to is said.
func TestRootOfChains(t *testing.T) {
	const lost = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.7]:51423"
	const full = "OSError: [Errno 28] No space left on device"
	for _, tt := range []struct {
		name   string
		raised []Exception
		kind   Kind
		line   string
		led    string
		beside string
		echo   bool
	}{
		{"a direct cause", []Exception{{Text: full}, {Text: "SystemError: cannot save", Link: job.FromCause}}, DiskFull, full, "SystemError: cannot save", "", false},
		{"of a look-up, too", []Exception{{Text: "KeyError: 'lr'"}, {Text: "ValueError: bad configuration", Link: job.FromCause}}, Python, "KeyError: 'lr'", "ValueError: bad configuration", "", false},
		{"one of three", []Exception{{Text: full}, {Text: "IOError: x", Link: job.FromCause}, {Text: "SystemExit: y", Link: job.FromCause}}, DiskFull, full, "SystemExit: y", "", false},
		{"its loss is the reason", []Exception{{Text: lost}, {Text: "StepFailed: step 7", Link: job.FromCause}}, PeerLost, lost, "StepFailed: step 7", "", true},

		{"while one was handled", []Exception{{Text: "ValueError: loss is nan"}, {Text: "AttributeError: 'NoneType' object has no attribute 'finish'", Link: job.WhileHandling}},
			Python, "ValueError: loss is nan", "AttributeError: 'NoneType' object has no attribute 'finish'", "", false},
		{"a look-up that may fail", []Exception{{Text: "KeyError: 'vocab'"}, {Text: full, Link: job.WhileHandling}}, DiskFull, full, "", "it came while this was handled: KeyError: 'vocab'", false},
		{"an import that may fail", []Exception{{Text: "ModuleNotFoundError: No module named 'orjson'"}, {Text: "ValueError: torn file", Link: job.WhileHandling}},
			Python, "ValueError: torn file", "", "it came while this was handled: ModuleNotFoundError: No module named 'orjson'", false},
		{"a file that may not be there", []Exception{{Text: "FileNotFoundError: [Errno 2] No such file or directory: 'cache'"}, {Text: "socket.gaierror: [Errno -3] Temporary failure in name resolution", Link: job.WhileHandling}},
			DNS, "socket.gaierror: [Errno -3] Temporary failure in name resolution", "", "it came while this was handled: FileNotFoundError: [Errno 2] No such file or directory: 'cache'", false},
		{"a look-up that failed deep in the program", []Exception{{Text: "KeyError: 'labels'", Deep: true}, {Text: "OSError: closed", Link: job.WhileHandling}}, Python, "KeyError: 'labels'", "OSError: closed", "", false},
		{"the empty queue", []Exception{{Text: "_queue.Empty"}, {Text: "RuntimeError: DataLoader worker (pid(s) 17) exited unexpectedly", Link: job.FromCause}},
			Python, "RuntimeError: DataLoader worker (pid(s) 17) exited unexpectedly", "", "", false},
		{"its loss while an own one was handled", []Exception{{Text: "ValueError: loss is nan"}, {Text: lost, Link: job.WhileHandling}}, Python, "ValueError: loss is nan", lost, "", false},

		{"a worker's", []Exception{{Text: "ValueError: Caught ValueError in DataLoader worker process 0."}, {Text: "ValueError: picture 3 is torn", Link: job.Quoted}},
			Python, "ValueError: picture 3 is torn", "ValueError: Caught ValueError in DataLoader worker process 0.", "", false},
		{"a worker's, of two", []Exception{{Text: "RuntimeError: Caught RuntimeError in DataLoader worker process 0."}, {Text: full, Link: job.Quoted}, {Text: "RuntimeError: no cache", Link: job.FromCause}},
			DiskFull, full, "RuntimeError: no cache", "", false},
		{"a pool's", []Exception{{Text: "multiprocessing.pool.RemoteTraceback:"}, {Text: "ValueError: 3\n\"\"\"", Link: job.Quoted}, {Text: "ValueError: 3", Link: job.FromCause}}, Python, "ValueError: 3", "", "", false},
		{"the socket of a worker that died", []Exception{{Text: "ConnectionResetError: [Errno 104] Connection reset by peer", Piped: true},
			{Text: "RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory.", Link: job.WhileHandling},
			{Text: "RuntimeError: DataLoader worker (pid(s) 7) exited unexpectedly", Link: job.FromCause}},
			SharedMemory, "RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory.",
			"RuntimeError: DataLoader worker (pid(s) 7) exited unexpectedly", "", false},

		{"a group", []Exception{{Text: "ExceptionGroup: two (2 sub-exceptions)"}, {Text: "ValueError: a", Link: job.Member}, {Text: "TypeError: b", Link: job.Member}},
			Python, "ValueError: a", "ExceptionGroup: two (2 sub-exceptions)", "beside it: TypeError: b", false},
		{"a group of which one only lost a rank", []Exception{{Text: "ExceptionGroup: two (2 sub-exceptions)"}, {Text: lost, Link: job.Member}, {Text: "TypeError: b", Link: job.Member}},
			Python, "TypeError: b", "ExceptionGroup: two (2 sub-exceptions)", "beside it: " + lost, false},
		{"a group that came of one", []Exception{{Text: full}, {Text: "ExceptionGroup: x (1 sub-exception)", Link: job.FromCause}, {Text: "ValueError: y", Link: job.Member}},
			DiskFull, full, "ExceptionGroup: x (1 sub-exception)", "", false},
		{"a member with a cause", []Exception{{Text: "ExceptionGroup: x (1 sub-exception)"}, {Text: full, Link: job.Member}, {Text: "ValueError: y", Link: job.FromCause}},
			DiskFull, full, "ValueError: y", "", false},
	} {
		f, ok := Read(Said{Raised: tt.raised, Code: 1})
		if !ok || f.Kind != tt.kind || f.Line != tt.line || f.Led != tt.led || strings.Join(f.Beside, "\n") != tt.beside || f.Echo != tt.echo {
			t.Errorf("%s: %+v", tt.name, f)
		}
	}
}

// The line of the program's own is named before one of a library's, whichever exception it is of.
func TestPlaceOfChains(t *testing.T) {
	for _, tt := range []struct {
		name   string
		raised []Exception
		want   string
	}{
		{"its own", []Exception{{Text: "ValueError: a", Where: "train.py:3", Own: true}, {Text: "SystemError: b", Where: "train.py:9", Own: true, Link: job.FromCause}}, "train.py:3"},
		{"the next one's", []Exception{{Text: "ValueError: a", Where: "socket.py:3"}, {Text: "SystemError: b", Where: "hub.py:9", Link: job.FromCause}, {Text: "OSError: c", Where: "train.py:2", Own: true, Link: job.FromCause}}, "train.py:2"},
		{"the wrapper's", []Exception{{Text: "ValueError: Caught ValueError in DataLoader worker process 0.", Where: "train.py:8", Own: true}, {Text: "ValueError: a", Where: "collate.py:3", Link: job.Quoted}}, "train.py:8"},
		{"a library's, where there is no other", []Exception{{Text: "ValueError: a", Where: "collate.py:3"}}, "collate.py:3"},
	} {
		if f, _ := Read(Said{Raised: tt.raised, Code: 1}); f.Where != tt.want {
			t.Errorf("%s: %+v", tt.name, f)
		}
	}
}

// A worker's end is told by what the worker itself said, and by no peer's loss.
func TestEndOfWorkers(t *testing.T) {
	const gone = "RuntimeError: DataLoader worker (pid(s) 17) exited unexpectedly"
	const bus = "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm)."
	pipe := Exception{Text: "ConnectionResetError: [Errno 104] Connection reset by peer", Piped: true}
	for _, tt := range []struct {
		name string
		said Said
		kind Kind
		line string
		led  string
	}{
		{"its line among the first", Said{First: []string{bus}, Raised: raised(gone)}, SharedMemory, bus, gone},
		{"its line among the last", Said{Last: []string{bus, gone}, Raised: raised(gone)}, SharedMemory, bus, gone},
		{"nothing else is told", Said{First: []string{"epoch 1"}, Raised: raised(gone)}, Python, gone, ""},
		{"a line of a lost rank is no worker's", Said{First: []string{"Connection reset by peer"}, Raised: raised(gone)}, Python, gone, ""},
		{"its pipe", Said{First: []string{bus}, Raised: []Exception{pipe}}, SharedMemory, bus, pipe.Text},
		{"its pipe alone", Said{Raised: []Exception{pipe}}, Python, pipe.Text, ""},
		{"its pipe, and its own exception before", Said{Raised: []Exception{{Text: "ValueError: torn"}, pipe}}, Python, "ValueError: torn", pipe.Text},
		{"a socket of the program's own", Said{Raised: raised(pipe.Text)}, PeerLost, pipe.Text, ""},
	} {
		tt.said.Code = 1
		if f, ok := Read(tt.said); !ok || f.Kind != tt.kind || f.Line != tt.line || f.Led != tt.led || f.Echo != (tt.kind == PeerLost) {
			t.Errorf("%s: %+v", tt.name, f)
		}
	}
}

// torch's checkpoint has each rank say whose failure it is: that one is named, whoever ends first, and nobody where it is not heard.
func TestRanksOfCheckpoints(t *testing.T) {
	const wrapper = "torch.distributed.checkpoint.api.CheckpointException: CheckpointException ranks:dict_keys([%])"
	about := func(id int) Fault {
		return Fault{Event: Ended, ID: id, Host: "w0", Process: job.Process{Rank: id}, Exit: job.Exit{Code: 1}}
	}
	for _, tt := range []struct {
		name, ranks string
		failed      []int // in this order
		want        int   // -1: nobody
	}{
		{"the other one ends first", "1", []int{0, 1}, 1},
		{"it ends first itself", "1", []int{1, 0}, 1},
		{"both of two", "0, 1", []int{0, 1}, 0},
		{"one of many", "3", []int{2, 0, 1, 3}, 3},
		{"one that is not heard", "7", []int{0, 1}, -1},
		{"a number that is none", "99999999999", []int{0, 1}, 0},
	} {
		said := Said{Code: 1, Raised: []Exception{{Text: strings.ReplaceAll(wrapper, "%", tt.ranks)}, {Text: "OSError: [Errno 28] No space left on device", Link: job.Quoted}}}
		var c Case
		for i, id := range tt.failed {
			f := about(id)
			f.At = time.Duration(i) * time.Millisecond
			f.TimeNS = int64(f.At)
			c.Add(f)
		}
		c.Hear(4, func(id int) Said {
			for _, failed := range tt.failed {
				if id == failed {
					return said
				}
			}
			return Said{}
		}, time.Time{}, about)
		v, _ := c.Verdict(Circumstances{})
		if got := -1; v.Rank != nil && *v.Rank != tt.want || v.Rank == nil && got != tt.want || v.Kind != DiskFull {
			t.Errorf("%s: %+v", tt.name, v)
		}
	}
}

// A message is quoted to its end, and is bounded.
func TestMessagesAreQuoted(t *testing.T) {
	long := "Error: begins\n" + strings.Repeat("\tsize mismatch for a\n", 500) + "\tends"
	for text, want := range map[string]string{
		"Error: a\n\tb\n\n  c\n": "Error: a | b | c",
		"Error: a":               "Error: a",
		"Error: a\n\"\"\"":       "Error: a",
		"":                       "",
	} {
		if got := quoted(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
	if got := quoted(long); len(got) > maxQuoted+10 || !strings.HasPrefix(got, "Error: begins") || !strings.HasSuffix(got, "ends") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}

// A restart's line has the reason, or else what the rank wrote last.
func TestReason(t *testing.T) {
	for _, tt := range []struct {
		name  string
		said  Said
		wrote Wrote
		code  int
		want  string
	}{
		{"an exception", Said{Raised: []Exception{{Text: "ValueError: nan", Where: "train.py:3"}}}, Wrote{}, 1, "rank 0 on w0 exited with code 1: ValueError: nan (train.py:3)"},
		{"its root", Said{Raised: []Exception{{Text: "ValueError: nan"}, {Text: "SystemError: x", Link: job.FromCause}}}, Wrote{}, 1, "rank 0 on w0 exited with code 1: ValueError: nan"},
		{"a last line", Said{}, Wrote{Last: "no shard"}, 3, "rank 0 on w0 exited with code 3, having written last: no shard"},
		{"nothing", Said{}, Wrote{}, 3, "rank 0 on w0 exited with code 3"},
	} {
		var c Case
		c.Add(Fault{Event: Ended, Host: "w0", Exit: job.Exit{Code: tt.code}})
		c.Hear(1, func(int) Said { s := tt.said; s.Code = tt.code; return s }, time.Time{}, func(id int) Fault { return Fault{ID: id} })
		if v, _ := c.Verdict(Circumstances{Wrote: tt.wrote}); v.Reason() != tt.want {
			t.Errorf("%s: %q", tt.name, v.Reason())
		}
	}
	if (&Verdict{}).Reason() != "" {
		t.Error("a verdict of nothing has a reason")
	}
}

// The first lines of a rank are told where they may be why it ends: no banner, and no head of a traceback.
func TestFirstLinesThatTell(t *testing.T) {
	for _, tt := range []struct {
		name  string
		first []string
		want  string
	}{
		{"a traceback", []string{"Traceback (most recent call last):", `  File "/app/train.py", line 3, in <module>`, "    main()"}, ""},
		{"one of rank 3", []string{"[rank3]: Traceback (most recent call last):", "[rank3]: x"}, ""},
		{"a script that is no Python", []string{`  File "/app/train.py", line 3`, "    x = = 1"}, ""},
		{"rich's", []string{"╭───── Traceback (most recent call last) ─────╮", "│ /app/train.py:3 │"}, ""},
		{"argparse's", []string{"usage: train.py [-h]", "train.py: error: x"}, ""},
		{"torchrun's banner", []string{"*****************************************", "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default", "no shard"}, "no shard"},
		{"Lightning's banner", []string{"GPU available: False, used: False", "TPU available: False, using: 0 TPU cores", "----------------------------------------------------------------------------------------------------", "disk is nearly full"}, "disk is nearly full"},
		{"DeepSpeed's", []string{"[2026-11-28 23:42:50,357] [WARNING] [real_accelerator.py:213:get_accelerator] Setting accelerator to CPU.", "[2026-11-28 23:42:51,000] [INFO] [comm.py:658:init_distributed] cdb=None"}, ""},
		{"a program's", []string{"=================", "== SOLVER 3.1 ==", "cannot read mesh"}, "cannot read mesh"},
		{"what tells", []string{"loading", "cannot read mesh"}, "loading cannot read mesh"},
	} {
		if got := strings.Join(telling(tt.first), " "); got != tt.want {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
}

// What helps is told of what the words say, and what does not is not.
func TestAdviceAlone(t *testing.T) {
	for _, tt := range []struct {
		line, first, never string
	}{
		{"OSError: [Errno 24] Too many open files: '/data/shard-3'", "open files: raise their soft limit", "OMP_NUM_THREADS"},
		{"RuntimeError: received 0 items of ancdata", "open files: raise their soft limit", "OMP_NUM_THREADS"},
		{"RuntimeError: can't start new thread", "set OMP_NUM_THREADS", "ulimit -n 65536"},
		{"OpenBLAS blas_thread_init: pthread_create failed for thread 50 of 64: Resource temporarily unavailable", "set OMP_NUM_THREADS", "ulimit -n 65536"},
		{"train.py: error: the following arguments are required: --data", "these are the program's own arguments", "mpiup run --help"},
		{"train.py: error: unrecognized arguments: --local-rank=0", "these are the program's own arguments", "mpiup run --help"},
		{"train.py: error: argument --lr: invalid float value: 'fast'", "these are the program's own arguments", "mpiup run --help"},
		{"train.py: error: argument --opt: invalid choice: 'adm' (choose from 'sgd', 'adam')", "these are the program's own arguments", "mpiup run --help"},
		{"train.py: error: --warmup is longer than --steps", "these are the program's own arguments", "mpiup run --help"},
		{"Error: No such option: --learning-rate", "these are the program's own arguments", "mpiup run --help"},
		{"RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory.", "mount a memory volume", ""},
		{"RuntimeError: unable to write to file </torch_7_8_9>", "mount a memory volume", ""},
		{"NCCL WARN Error: failed to extend /dev/shm/nccl-a1b2c3 to 33030528 bytes", "mount a memory volume", ""},
		{"ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).", "mount a memory volume", ""},
	} {
		f, ok := Read(Said{Last: []string{tt.line}, Code: 1})
		list := strings.Join(Advice(f.Kind, f.Text, false), "\n")
		if !ok || !strings.HasPrefix(list, tt.first) || tt.never != "" && strings.Contains(list, tt.never) {
			t.Errorf("%s: %s %q", tt.line, f.Kind, list)
		}
	}
}

// Whatever exceptions a rank writes, what is told of them is bounded, and is told again by the same.
func FuzzChains(f *testing.F) {
	f.Add("OSError: a\x00\x01SystemError: b", "x")
	f.Add("ExceptionGroup: two (2 sub-exceptions)\x00\x04ValueError: a\x00\x04TypeError: b\nc", "")
	f.Add("torch.distributed.DistBackendError: NCCL error in: x\nLast error:\nDuplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000", "/dev/shm")
	f.Add("CheckpointException: CheckpointException ranks:dict_keys([0, 1, 99999999])\x00\x03OSError: a", "Bus error")
	f.Fuzz(func(t *testing.T, text, line string) {
		defer cost.Watch(t, cost.Parser, 2*len(text)+len(line))()
		said := Said{First: []string{line}, Last: []string{line}, Code: 1}
		for _, part := range strings.Split(text, "\x00") {
			link := job.Unlinked
			if part != "" && part[0] <= byte(job.Member) {
				link, part = job.Link(part[0]), part[1:]
			}
			if len(said.Raised) < 8 {
				said.Raised = append(said.Raised, Exception{Text: part, Link: link, Piped: len(part)%2 == 0, Deep: len(part)%3 == 0})
			}
		}
		one, ok := Read(said)
		again, _ := Read(said)
		if diff := cmp.Diff(one.story(), again.story()); diff != "" {
			t.Error(diff)
		}
		if !ok {
			return
		}
		const most = maxQuoted + 100
		if one.Kind == "" || len(one.Line) > max(most, len(line)) || len(one.story()) > 3 {
			t.Errorf("%+v", one)
		}
	})
}
