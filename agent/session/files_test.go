package session

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/identity"
)

// launchFiles launches one rank of program with files to come.
func (c *client) launchFiles(app *apiv1.App, files ...*apiv1.CopyFile) {
	c.t.Helper()
	c.send((&apiv1.Launch{Job: &apiv1.Job{Size: 1, Hosts: 1, Pmi: apiv1.Pmi_PMI_NONE}, Number: 1, Apps: []*apiv1.App{app}, Procs: []*apiv1.Proc{{}}, Files: files}).Frame())
}

func (c *client) copyData(text string) {
	c.t.Helper()
	c.send((&apiv1.CopyData{Data: []byte(text)}).Frame())
}

func startFailed(f *apiv1.Frame) bool { return f.GetStartFailed() != nil }

// A program that was sent runs among its files; they are gone with the session, and so is what stood at
// an absolute path.
func TestCopiedProgram(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	abs := filepath.Join(t.TempDir(), "input")
	c := newClient(t, newTable(t), '1', "life-1")
	c.dial(false)
	script := "#!/bin/sh\npwd; echo $MPIUP_FILES; cat data/x; cat " + abs + "\n"
	c.launchFiles(&apiv1.App{Argv: []string{"./a.out"}, Copied: 1, SessionDir: true},
		&apiv1.CopyFile{Name: "a.out", Mode: 0o755, Size: uint64(len(script))}, &apiv1.CopyFile{Name: "data/x", Mode: 0o644, Size: 2},
		&apiv1.CopyFile{Name: abs, Mode: 0o600, Size: 3})
	c.copyData(script[:10])
	c.copyData(script[10:] + "x\ny")
	c.copyData("z\n")
	seen := c.until(outputEnd)
	dir := filepath.Join(os.Getenv("TMPDIR"), "mpiup-"+strconv.Itoa(os.Getuid()), "session-"+c.open.Session, "files")
	if got, want := stdout(seen), dir+"\n"+dir+"\nx\nyz\n"; got != want {
		t.Errorf("printed %q, not %q: %v", got, want, seen)
	}
	back := 0
	for _, f := range seen {
		back += int(f.GetCopyCredit().GetBytes())
	}
	if want := len(script) + 5; back != want {
		t.Errorf("%d bytes of window came back of %d", back, want)
	}
	c.send((&apiv1.Bye{}).Frame())
	c.until(isClosed)
	for _, path := range []string{abs, filepath.Dir(filepath.Dir(dir))} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s stays", path)
		}
	}
}

func TestFileThatCannotBeCopied(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	c := newClient(t, newTable(t), '1', "life-1")
	c.dial(false)
	c.launchFiles(&apiv1.App{Argv: []string{"true"}}, &apiv1.CopyFile{Name: "/etc/passwd", Mode: 0o644, Size: 3})
	seen := c.until(startFailed)
	f := seen[len(seen)-1].GetStartFailed()
	if f.Phase != apiv1.StartPhase_START_COPY || !strings.HasPrefix(f.Text, "/etc/passwd cannot be copied to /etc/passwd: something else is there already") {
		t.Errorf("%v", f)
	}
	c.copyData("abc") // was under way
	c.send((&apiv1.Bye{}).Frame())
	c.until(isClosed)
}

// A launcher that does not keep to what it announced is hung up on, and nothing is started.
func TestLaunchersThatLie(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	file := func(name string, size uint64) *apiv1.CopyFile {
		return &apiv1.CopyFile{Name: name, Mode: 0o644, Size: size}
	}
	for i, tt := range []struct {
		name   string
		launch func(l *apiv1.Launch)
		sent   string
	}{
		{"more bytes than announced", func(*apiv1.Launch) {}, "12345"},
		{"bytes for no file", func(l *apiv1.Launch) { l.Files = nil }, "1"},
		{"a name that leads upwards", func(l *apiv1.Launch) { l.Files[0] = file("../x", 1) }, ""},
		{"an absolute one that does", func(l *apiv1.Launch) { l.Files[0] = file("/tmp/../etc/x", 1) }, ""},
		{"one name twice", func(l *apiv1.Launch) { l.Files = append(l.Files, file("x", 1)) }, ""},
		{"a size beyond all bounds", func(l *apiv1.Launch) { l.Files[0] = file("x", 1<<63+1) }, ""},
		{"sizes that add up to nothing", func(l *apiv1.Launch) { l.Files = []*apiv1.CopyFile{file("x", 1<<63), file("y", 1<<63)} }, ""},
		{"a program that is no file", func(l *apiv1.Launch) { l.Apps[0].Copied = 2 }, ""},
		{"files for a command", func(l *apiv1.Launch) { l.Exec = &apiv1.Exec{} }, ""},
		{"files for another host", func(l *apiv1.Launch) { l.Procs = nil }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newClient(t, newTable(t), byte('a'+i), "life-1")
			c.dial(false)
			l := &apiv1.Launch{Job: &apiv1.Job{Size: 1, Hosts: 1, Pmi: apiv1.Pmi_PMI_NONE}, Number: 1, Apps: []*apiv1.App{{Argv: []string{"sleep", "100"}}},
				Procs: []*apiv1.Proc{{}}, Files: []*apiv1.CopyFile{file("x", 3)}}
			tt.launch(l)
			c.send(l.Frame())
			if tt.sent != "" {
				c.copyData(tt.sent)
			}
			eventually(t, "the stream is ended", func() bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.table.mu.Lock()
				defer c.table.mu.Unlock()
				s := c.table.open[c.open.Session]
				if s == nil {
					return true
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				return s.streams == 0
			})
		})
	}
}

// Who may run ranks may still be refused to bring files.
func TestCopyIsAKindOfItsOwn(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var log logged
	a := tableWith(t, log.logger(), rules(t, "allow run launcher"))
	c := newClient(t, a, 'a', "life")
	c.peer, c.name = callerAs("l", identity.RoleLauncher), "l"
	c.dial(false)
	c.launchFiles(&apiv1.App{Argv: []string{"true"}}, &apiv1.CopyFile{Name: "a b", Mode: 0o644, Size: 3})
	seen := c.until(startFailed)
	if f := seen[len(seen)-1].GetStartFailed(); !strings.HasPrefix(f.Text, "the agent's policy refuses copy to launchers (no line of /etc/mpiup/policy allows it) and allows them run;") {
		t.Errorf("%v", f)
	}
	c.copyData("abc")
	b := tableWith(t, log.logger(), nil)
	d := newClient(t, b, 'b', "life")
	d.peer, d.name = c.peer, c.name
	d.dial(false)
	d.launchFiles(&apiv1.App{Argv: []string{"true"}}, &apiv1.CopyFile{Name: "a b", Mode: 0o644, Size: 3})
	d.copyData("abc")
	d.until(outputEnd)
	lines := strings.Join(log.audit(), "\n")
	for _, want := range []string{`level=WARN msg="start refused" what=copy session=aaaaaaaa number=1 job=0 files="\"a b\":3" uid=`, `level=INFO msg=start what=copy session=abababab number=1 job=0 files="\"a b\":3" uid=`} {
		if !strings.Contains(lines, want) {
			t.Errorf("no line %s in\n%s", want, lines)
		}
	}
}
