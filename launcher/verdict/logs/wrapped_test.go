package logs

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// wrappings are what stands around each line of a log by the doing of whoever collected it, of the line with a number.
var wrappings = map[string]func(n int, line string) string{
	"carriage returns":          func(_ int, line string) string { return line + "\r" },
	"a colour":                  func(_ int, line string) string { return "\x1b[38;5;9m" + line + "\x1b[m\x1b[K" },
	"a terminal's title":        func(_ int, line string) string { return "\x1b]0;job\x07\x1b(B\x1b[?25l" + line },
	"blanks":                    func(_ int, line string) string { return "    " + line },
	"a quotation":               func(_ int, line string) string { return "> " + line },
	"kubectl logs --timestamps": stamped("2024-01-01T00:00:SS.mmm456789Z "),
	"kubectl logs --prefix":     func(_ int, line string) string { return "[pod/train-launcher/mpi] " + line },
	"and both":                  stamped("[pod/train-launcher/mpi] 2024-01-01T00:00:SS.mmm456789Z "),
	"a kubelet's file":          stamped("2024-01-01T00:00:SS.mmm456789Z stderr F "),
	"docker compose":            func(_ int, line string) string { return "launcher-1  | " + line },
	"GitLab":                    stamped("2024-01-01T00:00:SS.mmm456Z 01O "),
	"a zone":                    stamped("2024-01-01T00:00:SS.mmm+02:00 "),
	"a comma":                   stamped("2024-01-01 00:00:SS,mmm "),
	"a date in brackets":        stamped("[2024-01-01 00:00:SS.mmm] "),
	"slashes":                   stamped("2024/01/01 00:00:SS.mmm "),
	"slashes in brackets":       stamped("[2024/01/01 00:00:SS.mmm] "),
	"the month first":           stamped("01/02/2024 00:00:SS.mmm "),
	"a time":                    stamped("00:00:SS.mmm "),
	"a time in brackets":        stamped("[00:00:SS.mmm] "),
	"ts":                        stamped("Jan 01 00:00:SS "),
	"syslog":                    stamped("Jan  1 00:00:SS n7 slurmd[9mmm]: "),
	"journalctl -o short-iso":   stamped("2024-01-01T00:00:SS+0000 n7 train[12]: "),
	"dmesg -T":                  stamped("[Mon Jan  1 00:00:SS 2024] "),
	"dmesg":                     stamped("[ 1SS.mmm000] "),
	"mpirun --timestamp-output": stamped("Mon Jan  1 00:00:SS 2024<stderr>:"),
	"seconds since 1970":        stamped("17040670SS.mmm "),
	"Docker's files, as records": func(_ int, line string) string {
		return `{"log":` + quoted(line+"\n") + `,"stream":"stderr","time":"2024-01-01T00:00:00Z"}`
	},
}

// stamped writes a time before a line, of which SS are seconds and mmm thousandths: lines follow each other within a moment.
func stamped(format string) func(int, string) string {
	return func(n int, line string) string {
		return strings.NewReplacer("SS", fmt.Sprintf("%02d", n/1000), "mmm", fmt.Sprintf("%03d", n%1000)).Replace(format) + line
	}
}

func quoted(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}

// saidIn is what is said of a log that somebody collected.
func saidIn(lines []string, wrap func(int, string) string) string {
	var r Reader
	for n, line := range lines {
		if line == "# file" {
			r.File()
		} else {
			r.Line(wrap(n, line))
		}
	}
	return said(&r)
}

// Whoever collected a log, it says the same.
func TestWrapped(t *testing.T) {
	for log, want := range map[string]string{
		"Traceback (most recent call last):\n  File \"t.py\", line 3, in f\n    x = y()\n\nRuntimeError: CUDA out of memory. Tried to allocate 2 GiB": "kind gpu-out-of-memory rank unknown",
		"srun: error: nid0001: task 3: Segmentation fault (core dumped)":                                                                              "kind segfault rank 3 certain",
		"[rank1]: ready\n[rank3]: RuntimeError: CUDA out of memory. Tried to allocate 2 GiB":                                                          "kind gpu-out-of-memory rank 3 certain",
		"mpirun noticed that process rank 3 with PID 5 on node w1 exited on signal 11 (Segmentation fault).":                                          "kind segfault rank 3 certain",
	} {
		for name, wrap := range wrappings {
			if got := saidIn(strings.Split(log, "\n"), wrap); got != want {
				t.Errorf("%s: is %q, want %q of %q", name, got, want, log)
			}
		}
	}
}

// Each log of the corpus in one of them.
func TestCorpusWrapped(t *testing.T) {
	files, _ := filepath.Glob("testdata/corpus/*.txt")
	names := slices.Sorted(maps.Keys(wrappings))
	for i, file := range files {
		name := names[i%len(names)]
		if _, want, lines := collected(t, file); name != "blanks" {
			if got := saidIn(lines, wrappings[name]); got != want {
				t.Errorf("%s in %s: is %q, want %q", filepath.Base(file), name, got, want)
			}
		}
	}
}

// A launcher's pod is not where the process was of which it tells, and what one pod's log tells of a rank is not of another pod's process.
func TestPods(t *testing.T) {
	for _, tc := range []struct{ log, said, host string }{
		{"[pod/l/mpi] mpirun noticed that process rank 3 with PID 5 on node w1 exited on signal 11 (Segmentation fault).", "kind segfault rank 3 certain", "w1"},
		{"[pod/w1/mpi] Segmentation fault (core dumped)\n[pod/l/mpi] Process name: [[1,1],3]\n[pod/l/mpi] Exit code: 139", "kind segfault rank unknown", "w1"},
		{"[pod/w1/mpi] [rank3]: RuntimeError: CUDA out of memory.\n[pod/w2/mpi] [rank5]: ready", "kind gpu-out-of-memory rank 3 certain", "w1"},
		{"[pod/w1/mpi] RuntimeError: CUDA out of memory.\n[pod/w2/mpi] ready", "kind gpu-out-of-memory rank unknown", "w1"},
		// Lines of several pods stand among each other: a traceback goes on behind another's lines, and what another outlives is not its end.
		{"[pod/w1/mpi] Traceback (most recent call last):\n[pod/w2/mpi] step 1\n[pod/w1/mpi]   File \"t.py\", line 3, in f\n[pod/w2/mpi] step 2\n" +
			"[pod/w1/mpi] KeyError: 'x'\n[pod/w2/mpi] step 3\n[pod/w2/mpi] step 4\n[pod/w2/mpi] step 5", "kind python-exception rank unknown", "w1"},
		{"w1  | Traceback (most recent call last):\nw2  | Traceback (most recent call last):\nw1  |   File \"t.py\", line 3, in f\nw2  |   File \"t.py\", line 3, in f\n" +
			"w1  | torch.distributed.DistBackendError: NCCL error in: x.cpp:12, remote process exited or there was a network error\nw2  | ValueError: bad grid",
			"kind python-exception rank unknown", "w2"},
		// stern's lines, where something shows that they are
		{"j-w-1 mpi Traceback (most recent call last):\nj-w-2 mpi step 1\nj-w-1 mpi   File \"t.py\", line 3, in f\nj-w-1 mpi KeyError: 'x'\n" +
			"j-w-2 mpi step 2\nj-w-2 mpi step 3\nj-w-2 mpi step 4", "kind python-exception rank unknown", "j-w-1"},
		{"j-w-1 mpi [rank3]: RuntimeError: CUDA out of memory.\nj-w-2 mpi [rank5]: ready", "kind gpu-out-of-memory rank 3 certain", "j-w-1"},
		{"+ j-w-1 › mpi\n+ j-w-2 › mpi\nj-w-2 mpi ready\nj-w-1 mpi forrtl: severe (174): SIGSEGV, segmentation fault occurred\n- j-w-1 › mpi",
			"kind segfault rank unknown", "j-w-1"},
		{"pre-flight check [2]: ready\npre-flight check Segmentation fault", "kind segfault rank unknown", ""},
	} {
		var r Reader
		for line := range strings.SplitSeq(tc.log, "\n") {
			r.Line(line)
		}
		if v, _ := r.Verdict(); said(&r) != tc.said || v.Host != tc.host {
			t.Errorf("%s on %s of %q", said(&r), v.Host, tc.log)
		}
	}
}
