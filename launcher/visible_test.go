package launcher

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/launcher/run"
)

// What a hostile host or rank may have put into a name or a message: a title, a colour by a C1
// control, as a character and as a byte, a line of mpiup's, a change of direction.
const hostile = "w\x1b]0;mine\a\u009b31m\x9b2J\nmpiup: all is well\r\u202e0w"

var obeyed = regexp.MustCompile("[\x00-\x08\x0b-\x1f\x7f\u0080-\u009f\u202e]")

// Text of others never reaches the terminal as it is, whatever shows it.
func TestForeignTextIsVisible(t *testing.T) {
	log := filepath.Join(t.TempDir(), "termination-log")
	if err := os.WriteFile(log, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	show := map[string]func(r *driver, out *bytes.Buffer){
		"notice":  func(r *driver, _ *bytes.Buffer) { r.do(run.Say{Line: "host " + hostile + ": " + hostile}) },
		"failure": func(r *driver, _ *bytes.Buffer) { last(&r.cfg.Reach, 1, []string{hostile}, nil) },
		"termination log": func(r *driver, out *bytes.Buffer) {
			r.cfg.TerminationLog = log
			last(&r.cfg.Reach, 1, []string{hostile}, []string{hostile})
			text, _ := os.ReadFile(log)
			out.Write(text)
		},
	}
	for name, f := range show {
		var out bytes.Buffer
		cfg := Config{Reach: reach.Reach{Stderr: &out}}
		cfg.Fill()
		f(newDriver(cfg), &out)
		text := strings.ReplaceAll(out.String(), "\x1b[", "") // what mpiup itself draws with; never the text's "ESC ]"
		if bad := obeyed.FindString(text); bad != "" || !strings.Contains(text, `\u001b]0;mine`) {
			t.Errorf("%s: %q is shown of %q", name, bad, text)
		}
		forged := strings.HasPrefix(text, "mpiup: all is well") || strings.Contains(text, "\nmpiup: all is well")
		if forged && name != "termination log" { // there lines have no author
			t.Errorf("%s: a line of mpiup's own could be forged: %q", name, text)
		}
	}
}
