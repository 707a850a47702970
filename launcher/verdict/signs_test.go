package verdict

import (
	"os"
	"strings"
	"testing"
)

// Each text is known as its own kind, and by no sign above it of another one.
func TestSignsAreReachable(t *testing.T) {
	for _, s := range Signs() {
		text := strings.ReplaceAll(s.Text, "*", " x ")
		got, _ := Recognise(text)
		if got == nil || got.Kind != s.Kind || got.Weight() != s.Weight() {
			t.Errorf("%q of %s is known by %+v", s.Text, s.Kind, got)
		}
		if s.Kind != "" && Of(s.Kind).Title == "" {
			t.Errorf("%q is of %q, which is no kind", s.Text, s.Kind)
		}
	}
}

// Lines of real logs, each with its public source, are known as what they are, wherever a rank wrote them; every kind that is known by
// lines has one.
func TestLinesOfRealLogs(t *testing.T) {
	text, err := os.ReadFile("testdata/lines/real.tsv")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[Kind]bool{}
	for row := range strings.Lines(string(text)) {
		if strings.HasPrefix(row, "#") {
			continue
		}
		cells := strings.SplitN(strings.TrimSuffix(row, "\n"), "\t", 3)
		if len(cells) != 3 || cells[1] == "" || cells[2] == "" {
			t.Fatalf("%q is no kind, source and line", row)
		}
		kind, line := Kind(cells[0]), cells[2]
		shown[kind] = true
		s, ok := Recognise(line)
		if ok != (kind != "-") || ok && s.Kind != kind {
			t.Errorf("%s: %q is %+v", cells[1], line, s)
			continue
		}
		if kind == "-" {
			continue
		}
		for _, said := range []Said{{Raised: raised(line)}, {Last: []string{"a", line, "b"}}, {First: []string{line}, Last: []string{"c"}}} {
			f, ok := Read(said)
			if !ok || f.Kind != kind || f.Echo != (s.Weight() <= Wait) || f.Line != strings.TrimSpace(line) && f.Line != line || len(Advice(f.Kind, f.Text, false)) == 0 {
				t.Errorf("%q of %s is %+v", line, cells[1], f)
			}
		}
	}
	for _, s := range Signs() {
		if s.Kind != "" && !shown[s.Kind] {
			shown[s.Kind] = true
			t.Errorf("no line shows %s", s.Kind)
		}
	}
}

// A sign that ends with a number knows that number only.
func TestNumbersOfSignsAreWhole(t *testing.T) {
	for line, want := range map[string]Kind{
		"=   EXIT CODE: 9": Killed, "=   EXIT CODE: 99": ExitCode, "=   EXIT CODE: 15": Killed, "=   EXIT CODE: 155": ExitCode,
		"died from signal 11": Segfault, "exit code 1390 after exit code 139": Segfault, "exit code 1390": "",
	} {
		s, ok := Recognise(line)
		if ok != (want != "") || ok && s.Kind != want {
			t.Errorf("%q is %+v, want %q", line, s, want)
		}
	}
}

// What mpiup itself says of a rank that a file system holds.
func TestLinesOfMountsThatDoNotAnswer(t *testing.T) {
	for _, line := range []string{
		"rank 2 on w1 (pid 27554) is the odd one out: it waits in read on /data (nfs4, filer:/export) while others use CPU",
		"rank 2 on w1 (pid 27554) is the odd one out: it waits in read on /data (fuse.sshfs, user@host:/) while others use CPU",
		"w1: processes [12] do not end (stopped for: x); they wait for a device or file system; process 12 in fsync on /data (nfs4, filer:/export)",
	} {
		if s, ok := Recognise(line); !ok || s.Kind != StuckIO {
			t.Errorf("%q is %+v", line, s)
		}
	}
}

// What is no sign is told of by its line.
func TestSignsThatAreNone(t *testing.T) {
	for text, want := range map[string]string{"# a\n= tired\nx\n": `row 2: "tired" is no kind`, "= crash heavy\n": `row 1: "heavy" is no weight`, "= crash\n\"x\n": "row 2: invalid syntax"} {
		if list, err := readSigns(text); err == nil || err.Error() != want {
			t.Errorf("%q: %v, %v", text, list, err)
		}
	}
}
