package logs

import (
	"encoding/json"
	"strings"
	"testing"
)

// What mpiup says of itself counts only where no rank can have written it.
func TestOwnWordsAreNoRanks(t *testing.T) {
	const (
		record = `{"time":"2026-11-23T04:00:00Z","event":"verdict","kind":"gpu-fault","rank":5,"host":"w9","node":"n;sh","cordon":"kubectl cordon x; curl evil","evidence":["e"],"advice":["a"]}`
		words  = "mpiup: gpu-fault; more: mpiup help gpu-fault"
		guilty = "mpiup: rank 5 on w9 exited with code 3"
		output = `{"time":"2026-11-23T04:00:00Z","rank":0,"host":"w0","stream":"stdout","text":"hello"}`
	)
	text := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	inside := func(s string) string { return strings.Replace(output, `"hello"`, text(s), 1) }
	docker := func(s string) string { return `{"log":` + text(s+"\n") + `,"stream":"stdout"}` }
	for _, tt := range []struct {
		name string
		log  []string
		want string
	}{
		{"a record among records", []string{"mpiup: 2 ranks", output, record, guilty, words}, "kind gpu-fault rank 5 certain"},
		{"behind kubectl's times and names", []string{"[pod/l-0/launcher] 2026-11-23T04:00:00.1Z " + output, "[pod/l-0/launcher] 2026-11-23T04:00:00.1Z " + record}, "kind gpu-fault rank 5 certain"},
		{"in Docker's file", []string{docker(output), docker(record)}, "kind gpu-fault rank 5 certain"},
		{"two files, the second is plain", []string{output, record, "# file", "hello"}, "kind gpu-fault rank 5 certain"},
		{"words", []string{"hello", guilty, words}, "kind gpu-fault rank 5 certain"},
		{"Ctrl-C, by which Python ends", []string{"Traceback (most recent call last):", `  File "t.py", line 2, in <module>`, "KeyboardInterrupt", "mpiup: interrupted"}, "kind interrupted rank none"},
		{"Ctrl-C by a rank's word", []string{"[0] mpiup: interrupted"}, "none"},
		{"words behind kubectl's names", []string{"[pod/l-0/launcher] " + guilty, "[pod/l-0/launcher] " + words}, "kind gpu-fault rank 5 certain"},
		{"a record in plain output", []string{"hello", record}, "none"},
		{"a record, and plain output behind it", []string{record, "hello"}, "none"},
		{"a record behind a tag", []string{"[0] " + record}, "none"},
		{"a record behind srun's tag", []string{"0: " + record}, "none"},
		{"a record behind Open MPI's tag", []string{"[1,0]<stdout>:" + record}, "none"},
		{"a record in a rank's record", []string{output, inside(record)}, "none"},
		{"a record in Docker's line in a rank's record", []string{inside(docker(record))}, "none"},
		{"a record in Docker's line in Docker's file", []string{docker(docker(record))}, "none"},
		{"who only reports", []string{"hello", guilty, "mpiup: rank 5 only says that it lost another one, and nothing tells which", words}, "kind gpu-fault rank unknown"},
		{"who only tells of another one", []string{"hello", guilty, "mpiup: rank 0 only says that rank 1 failed, of which nothing else is known", words}, "kind gpu-fault rank unknown"},
		{"who was silent", []string{"hello", "mpiup: the job ran longer than --timeout 8s", "mpiup: rank 5 on w9 is probably the one that others wait for: it has said nothing since ValueError: x", words}, "kind gpu-fault rank 5 probably"},
		{"the odd one", []string{"hello", "mpiup: rank 5 on w9 (pid 7) is the odd one out: it is elsewhere", words}, "kind gpu-fault rank 5 probably"},
		{"ranks of several hosts", []string{"hello", guilty, "mpiup: ranks 2,5 of several hosts ended within a moment: which was first is not known", words}, "kind gpu-fault rank 5 one of several"},
		{"a record that is not sure", []string{output, strings.Replace(record, `"rank"`, `"confidence":"probably","rank"`, 1)}, "kind gpu-fault rank 5 probably"},
		{"words behind a tag", []string{"[0] " + words}, "none"},
		{"words in a rank's record", []string{inside(words)}, "none"},
		{"words of another rank behind a tag", []string{"[0] " + guilty}, "kind exit-code rank 0 certain"},
	} {
		var r Reader
		for _, l := range tt.log {
			if l == "# file" {
				r.File()
				continue
			}
			r.Line(l)
		}
		if got := said(&r); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
		if v, _ := r.Verdict(); strings.ContainsAny(v.Cordon+v.Node, ";") {
			t.Errorf("%s: %q on %q", tt.name, v.Cordon, v.Node)
		}
	}
}
