package logs

import (
	"cmp"
	"encoding/json"
	"regexp"
	"strings"

	"github.com/mpiup/mpiup/internal/pattern"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// own is what mpiup itself says in a log. A rank can write the same words, so they count only where no rank can have written them:
//
//	words             behind no rank's tag, and in no record of a rank's line
//	verdict, as JSON  alone on its line, in a file of --output json: one in which all lines are records or mpiup's words
//
// A file of plain output, without tags, may hold mpiup's words from a rank. What they say is then taken for what it is: a kind, a rank and a
// host. No command is taken from a log.
type own struct {
	words  *verdict.Verdict
	record *verdict.Verdict // the latest of a file before
	latest *verdict.Verdict // of this file; nil: none that counts
	plain  bool             // this file has lines that are neither records nor mpiup's
}

// verdict is mpiup's own; nil: the log has none.
func (o *own) verdict() *verdict.Verdict {
	v := cmp.Or(o.latest, o.record, o.words)
	if v != nil {
		v.Confidence = cmp.Or(v.Confidence, map[bool]verdict.Confidence{false: verdict.Certain, true: verdict.Probable}[v.Likely]) // mpiup saw the run itself
	}
	return v
}

// file begins another one.
func (o *own) file() {
	o.record, o.latest, o.plain = cmp.Or(o.latest, o.record), nil, false
}

// outer takes a line as it stands in its file, with what collectors put before it.
func (o *own) outer(text string) {
	for _, re := range collectors {
		if m := re().FindStringIndex(text); m != nil {
			text = text[m[1]:]
		}
	}
	switch text = strings.TrimSpace(text); {
	case text == "", strings.HasPrefix(text, "mpiup: "):
		return
	case strings.HasPrefix(text, `{"time":`):
		if v, ok := recorded(text); ok && !o.plain {
			o.latest = v
		}
		return
	case strings.HasPrefix(text, `{"log":`):
		var docker struct{ Log string }
		if json.Unmarshal([]byte(text), &docker) == nil && !strings.HasPrefix(docker.Log, `{"log":`) {
			o.outer(docker.Log)
			return
		}
	}
	o.plain, o.latest = true, nil
}

// collectors are what stands before a line of whatever kind, in this order: kubectl logs --prefix and --timestamps, a kubelet's files.
var collectors = []func() *regexp.Regexp{
	pattern.Of(`^\[pod/[\w.-]+/[\w.-]+\] `),
	pattern.Of(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d) `),
	pattern.Of(`^std(?:err|out) [FP] `),
}

// doubt is how sure a sentence of a run's is of whom the run names; "": it does not tell.
func doubt(sentence string) verdict.Confidence {
	switch {
	case has(sentence, "onlyReports"):
		return verdict.Unknown
	case has(sentence, "amongOthers"):
		return verdict.OneOfSeveral
	case has(sentence, "isProbably"):
		return verdict.Probable
	}
	return ""
}

// recorded reads the verdict of a run of mpiup, as --output json has it.
func recorded(text string) (*verdict.Verdict, bool) {
	var r struct{ Event string }
	if json.Unmarshal([]byte(text), &r) != nil || r.Event != "verdict" {
		return nil, false
	}
	v, err := verdict.Parse([]byte(text))
	return &v, err == nil
}

// ofRank says that a tag names the process that wrote the line, or one that may have.
func (l line) ofRank() bool {
	return l.who.rank >= 0 || l.who.local > 0 || l.who.pid > 0 || l.bracket > 0
}

var ownKind = pattern.With("; more: mpiup help", `^(?:mpiup: )?(probably )?([a-z-]+); more: mpiup help ([a-z-]+)(?:, mpiup report.*)?$`)
