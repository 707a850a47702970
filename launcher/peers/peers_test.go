package peers

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
)

// What agents say of themselves never reaches the terminal as it is.
func TestForeignTextIsVisible(t *testing.T) {
	const hostile = "w\x1b]0;mine\a\u009b31m\x9b2J\nmpiup: all is well\r\u202e0w"
	obeyed := regexp.MustCompile("[\x00-\x08\x0b-\x1f\x7f\u0080-\u009f\u202e]")
	v := peersView{Scope: hostile, Peers: []peerRow{{Host: hostile, Version: hostile, Error: hostile}}}
	for _, asJSON := range []bool{false, true} {
		var out bytes.Buffer
		if err := v.print(&out, asJSON); err != nil {
			t.Error(err)
		}
		if bad := obeyed.FindString(out.String()); bad != "" || !strings.Contains(out.String(), `\u001b]0;mine`) {
			t.Errorf("%q is shown of %q", bad, out.String())
		}
	}
}
