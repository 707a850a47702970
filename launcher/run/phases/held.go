package phases

import (
	"bytes"
	"fmt"
	"time"
)

// Held is a run whose launcher is lost, as a host describes it.
type Held struct {
	Launcher string
	Command  []byte        // as two launchers compare it
	Text     string        // of it, for people
	Taken    bool          // another launcher has taken it over
	Left     time.Duration // for which its ranks live on
}

// mine is the run of one's own command, of those that a host holds; else why is a sentence. outrun: another launcher goes on with it. hold: this
// launcher takes runs over.
func mine(host string, runs []Held, own Held, hold bool) (at int, why string, outrun bool) {
	for i, h := range runs {
		switch {
		case !bytes.Equal(h.Command, own.Command) || !hold:
		case h.Taken:
			return i, fmt.Sprintf("launcher %s was there first: it has taken this very run over on host %s, and goes on with "+
				"it; this launcher ends (for a run of its own leave out --on-launcher-loss hold)", h.Launcher, host), true
		default:
			return i, "", false
		}
	}
	h := runs[0]
	left := h.Left.Round(time.Second)
	if bytes.Equal(h.Command, own.Command) {
		return 0, fmt.Sprintf("host %s holds the ranks of this very command, whose launcher %s is lost: add "+
			"--on-launcher-loss hold to go on with them, end them with --on-launcher-loss fence, or wait %v", host, h.Launcher, left), false
	}
	how := fmt.Sprintf("start that one with --on-launcher-loss hold to go on with it, end its ranks with --on-launcher-loss fence, or wait %v", left)
	return 0, fmt.Sprintf("host %s holds the ranks of launcher %s, which is lost; its command was %.400s, and this one is "+
		"%.400s: %s", host, h.Launcher, h.Text, own.Text, how), false
}
