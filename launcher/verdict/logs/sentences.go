package logs

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/pattern"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// ownBlock is the lines of mpiup's own that stand together: the last of them tells the kind, those before are the verdict's sentences.
type ownBlock struct {
	lines []string
	at    int // number of the last one
}

const maxBlock = 24

var (
	ownWhere = pattern.Of(`^(?:node \S+(?:, |$))?(?:pid (\d+)(?:, |$))?(?:GPU (\S+?)(?:, |$))?(?:(?:its GPU is at )?PCI (\S+?)(?:, |$))?(?:adapter (\S+))?$`)
	ownOdd   = pattern.Of(`^rank (\d+) (?:of spawned job \d+ )?on (\S+?)(?: \(pid (\d+)\))? is (?:the odd one out: |probably the one that others wait for: )`)
)

// ownLine takes a line of mpiup run's: one of a verdict, or of its notice that no rank works.
func (r *Reader) ownLine(l line) bool {
	text, own := strings.CutPrefix(l.text, "mpiup: ")
	if own = own && !l.ofRank(); own {
		r.notice(text)
	}
	switch {
	case own && strings.Contains(text, "; the ranks start again"), // which mends it, unless something comes behind
		!r.own.plain && !l.ofRank() && strings.HasPrefix(text, `{"time":`) && strings.Contains(text, `,"event":"restart",`):
		r.found.takeBack(func(*finding) bool { return true })
		r.named, r.first = nil, lead{}
		return true
	case own && text == string(verdict.Interrupted): // all that Ctrl-C leaves to say (verdict.Verdict.End)
		r.own.words = &verdict.Verdict{Kind: verdict.Interrupted, Evidence: []string{text}}
		return true
	}
	m := ownKind.Find(l.text)
	if m == nil || m[2] != m[3] || verdict.Of(verdict.Kind(m[2])).Title == "" || l.ofRank() {
		if !own {
			r.hang = nil // a rank speaks
			return false
		}
		if r.block.at != r.number-1 {
			r.block.lines = nil
		}
		if r.block.at = r.number; len(r.block.lines) < maxBlock {
			r.block.lines = append(r.block.lines, cut(text))
		}
		return false
	}
	v := verdict.Verdict{Kind: verdict.Kind(m[2]), Likely: m[1] != "",
		Advice: verdict.Advice(verdict.Kind(m[2]), strings.Join(r.block.lines, "\n"), !r.site.kube)}
	if r.block.at == r.number-1 {
		v = sentences(v, r.block.lines)
	}
	if v.Rank == nil && r.named != nil && len(v.Evidence) == 0 {
		v.Host = r.named.host
		if rank := r.named.rank; rank >= 0 {
			v.Rank = &rank
		}
	}
	if len(v.Evidence) == 0 {
		v.Evidence = []string{cut(l.text)}
	}
	r.own.words = &v
	return true
}

// sentences takes a verdict's lines apart: what happened first, then what lies behind it, what to do, what else went wrong.
func sentences(v verdict.Verdict, lines []string) verdict.Verdict {
	for _, l := range lines {
		switch m := ownWhere().FindStringSubmatch(l); {
		case strings.HasPrefix(l, "what happened when: "), strings.HasPrefix(l, "warning: "), strings.HasPrefix(l, "its first lines: "):
		case strings.HasPrefix(l, "then: "), strings.HasPrefix(l, "before that: "), strings.HasPrefix(l, "and ") && strings.HasSuffix(l, " more failures"):
			v.Others = append(v.Others, l)
		case l != "" && m != nil:
			v.PID, v.GPU, v.PCI, v.HCA = max(number(m[1]), 0), m[2], m[3], m[4]
		case verdict.Advises(l): // what to do is said anew: no command is taken from a log
		default:
			v.Evidence = append(v.Evidence, l)
		}
	}
	for _, l := range v.Evidence {
		if who, ok := ownWho(l); ok && v.Host == "" {
			if v.Host, v.PID = who.host, max(v.PID, who.pid); who.rank >= 0 {
				v.Rank = &who.rank
			}
		}
		if v.Confidence = cmp.Or(v.Confidence, doubt(l)); v.Confidence == verdict.Unknown {
			v.Rank, v.Host, v.PID = nil, "", 0
		}
	}
	return v
}

// ownWho is the rank or host that a sentence of mpiup's begins with.
func ownWho(text string) (ending, bool) {
	if m := ownOdd().FindStringSubmatch(text); m != nil {
		return ending{rank: number(m[1]), host: m[2], pid: max(number(m[3]), 0)}, true
	}
	for _, f := range facts() {
		if who, ok := f.names(text); ok && f.own {
			return who, true
		}
	}
	return ending{rank: -1}, false
}

// notice takes mpiup's word that no rank works. It stands until a rank speaks.
func (r *Reader) notice(text string) {
	switch {
	case strings.HasPrefix(text, "no rank has worked for "), strings.HasPrefix(text, "no rank has shown work for "):
		r.hang = &verdict.Verdict{Kind: verdict.Stalled, Likely: true, Confidence: verdict.Unknown, Evidence: []string{cut(text)}}
	case strings.HasPrefix(text, "ranks work again"), strings.HasSuffix(text, "sleeps for a time that it has chosen, and waits for no other"):
		r.hang = nil
	case r.hang != nil && !verdict.Advises(text) && len(r.hang.Evidence) < maxBlock:
		if m := ownOdd().FindStringSubmatch(text); m != nil && r.hang.Rank == nil {
			rank := number(m[1])
			r.hang.Rank, r.hang.Host, r.hang.PID, r.hang.Confidence = &rank, m[2], max(number(m[3]), 0), verdict.Probable
		}
		if !strings.HasPrefix(text, "what happened when: ") && !slices.Contains(r.hang.Evidence, text) {
			r.hang.Evidence = append(r.hang.Evidence, cut(text))
		}
	}
}

// StillRuns is what to do where a log tells of no end.
const StillRuns = "if the job still runs: mpiup ps shows what its ranks do, mpiup stacks where they are (in Kubernetes by kubectl exec POD -- mpiup ps)"
