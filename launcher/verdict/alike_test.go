package verdict

import (
	"path"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/test/cost"
)

// TestMissingFile finds the file that a process has missed, in words of programs of Debian 12.
func TestMissingFile(t *testing.T) {
	for _, tt := range []struct{ name, raised, last, want string }{
		{name: "Python", raised: "FileNotFoundError: [Errno 2] No such file or directory: '/data/a b/train.bin'", want: "/data/a b/train.bin"},
		{name: "Python, in its directory", raised: "FileNotFoundError: [Errno 2] No such file or directory: 'data/../conf.yaml'", want: "/home/u/conf.yaml"},
		{name: "Python's command line", last: "/usr/bin/python3: can't open file '/app/train.py': [Errno 2] No such file or directory", want: "/app/train.py"},
		{name: "bash", last: "bash: line 1: /app/run: No such file or directory", want: "/app/run"},
		{name: "bash, redirection", last: "run.sh: line 3: /data/in: No such file or directory", want: "/data/in"},
		{name: "cat", last: "cat: /data/train.bin: No such file or directory", want: "/data/train.bin"},
		{name: "ls", last: "ls: cannot access '/data/x': No such file or directory", want: "/data/x"},
		{name: "another reason", raised: "PermissionError: [Errno 13] Permission denied: '/data/x'"},
		{name: "one that was outlived, by the exception after it", raised: "ValueError: loss is nan", last: "cat: /data/x: No such file or directory"},
		{name: "a command", last: "bash: line 1: train-tool: command not found"},
		{name: "a module", raised: "ModuleNotFoundError: No module named 'einops'"},
		{name: "nothing"},
	} {
		said := Said{}
		if tt.raised != "" {
			said.Raised = []Exception{{Text: tt.raised}}
		}
		if tt.last != "" {
			said.Last = []string{"begins", tt.last}
		}
		if got := MissingFile(said, "/home/u"); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// What a rank writes makes no path but an absolute and clean one, at no great cost.
func FuzzMissingFile(f *testing.F) {
	f.Add("FileNotFoundError: [Errno 2] No such file or directory: '/data/../x'", "/home/u")
	f.Add("cat: /data/x: No such file or directory", "")
	f.Fuzz(func(t *testing.T, text, dir string) {
		defer cost.Watch(t, cost.Parser, len(text)+len(dir))()
		for _, said := range []Said{{Last: []string{text}}, {Raised: []Exception{{Text: text}}}} {
			if got := MissingFile(said, dir); got != "" && (!path.IsAbs(got) || path.Clean(got) != got) {
				t.Errorf("%q", got)
			}
		}
	})
}

// Advice is never to run one rank where the failure does not happen, and names the host where it did.
func TestAdviceNamesTheHost(t *testing.T) {
	said := Said{Raised: []Exception{{Text: "RuntimeError: it is so"}}}
	for _, tt := range []struct {
		name   string
		fail   []int // ranks, two on each host
		remote bool
		want   string // in the advice; "": no rank is to be run alone
	}{
		{"one rank", []int{2}, true, "run the one rank's part alone: mpiup run --host w1 -n 1"},
		{"one rank, and the launcher's host alone", []int{2}, false, "run the one rank's part alone: mpiup run -n 1"},
		{"all of one host", []int{2, 3}, true, ""},
		{"all", []int{0, 1, 2, 3}, true, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var c Case
			about := func(id int) Fault {
				return Fault{ID: id, Node: id / 2, Host: []string{"w0", "w1"}[id/2], Process: job.Process{Rank: id}}
			}
			failed := map[int]bool{}
			for _, id := range tt.fail {
				f := about(id)
				f.Exit.Code = 1
				c.Add(f)
				failed[id] = true
			}
			words := func(id int) Said {
				if failed[id] {
					return said
				}
				return Said{}
			}
			c.Hear(4, words, time.Time{}, about)
			v, _ := c.Verdict(Circumstances{Remote: tt.remote})
			all := strings.Join(v.Advice, "\n")
			if tt.want == "" && strings.Contains(all, "-n 1") || !strings.Contains(all, tt.want) {
				t.Errorf("advice:\n%s", all)
			}
		})
	}
}

// nobody is what tests say of processes of which they say nothing: each is on a host of its own.
func nobody(id int) Fault { return Fault{ID: id, Node: id, Process: job.Process{Rank: id}} }
