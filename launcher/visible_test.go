package launcher

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/wire"
	"github.com/mpiup/mpiup/launcher/link"
	"github.com/mpiup/mpiup/launcher/reach"
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
	show := map[string]func(r *run, out *bytes.Buffer){
		"notice":  func(r *run, _ *bytes.Buffer) { r.once(hostile, "host "+hostile+": "+hostile) },
		"failure": func(r *run, _ *bytes.Buffer) { last(&r.cfg.Reach, 1, []string{hostile}, nil) },
		"termination log": func(r *run, out *bytes.Buffer) {
			r.cfg.TerminationLog = log
			last(&r.cfg.Reach, 1, []string{hostile}, []string{hostile})
			text, _ := os.ReadFile(log)
			out.Write(text)
		},
		"agent's notice": func(r *run, _ *bytes.Buffer) {
			r.places = newPlaces()
			r.places.join(link.New(link.Config{Name: hostile, Clock: wire.NewClock(0)}))
			r.notice(0, &apiv1.Notice{Text: hostile, Warning: true})
		},
	}
	for name, f := range show {
		var out bytes.Buffer
		cfg := Config{Reach: reach.Reach{Stderr: &out}}
		cfg.Fill()
		f(newRun(cfg), &out)
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
