package reach

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/launcher/link"
)

// What hosts are called and answer never reaches the terminal as it is, while they are waited for.
func TestForeignTextIsVisible(t *testing.T) {
	const hostile = "w\x1b]0;mine\a\u009b31m\x9b2J\nmpiup: all is well\r\u202e0w"
	obeyed := regexp.MustCompile("[\x00-\x08\x0b-\x1f\x7f\u0080-\u009f\u202e]")
	var out bytes.Buffer
	r := &Reach{Stderr: &out}
	r.Fill()
	b := newBoard([]string{hostile}, r)
	b.set(0, link.Causef(link.StageConnect, "%s", hostile))
	b.draw("1s")
	lines, _ := b.verdict()
	for _, l := range lines {
		r.Say("%s", l)
	}
	text := strings.ReplaceAll(out.String(), "\x1b[", "") // what mpiup itself draws with; never the text's "ESC ]"
	if bad := obeyed.FindString(text); bad != "" || strings.Count(text, `\u001b]0;mine`) < 3 {
		t.Errorf("%q is shown of %q", bad, text)
	}
	if strings.Contains(text, "\nmpiup: all is well") {
		t.Errorf("a line of mpiup's own could be forged: %q", text)
	}
}
