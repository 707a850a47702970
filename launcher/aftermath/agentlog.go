package aftermath

import (
	"regexp"
	"strings"

	"github.com/mpiup/mpiup/internal/pattern"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/verdict/logs"
)

// reading is of logs: what they tell of a failure, and what an agent noted where they are its own.
type reading struct {
	logs.Reader
	agent bool     // a line says that an agent began
	noted []string // the last of its lines that matter
}

// mostNoted is how many lines of an agent's log are shown.
const mostNoted = 6

// says are messages that no other program's log has.
const says = "launcher lost|a rank failed|ranks ended|agent ends"

var (
	// Lines of slog, as an agent writes them.
	agentBegan = pattern.Of(`(?:^| )time=\S+ level=\S+ msg="agent is ready"|"msg":"agent is ready"`)
	agentSays  = pattern.Of(`(?:^| )time=\S+ level=\S+ msg="(?:` + says + `)"|^\{"time":"[^"]*","level":"[A-Z]+","msg":"(?:` + says + `)"`)
	ofSlog     = pattern.Of(`(?:^| )time=\S+ level=\S+ msg=|^\{"time":"[^"]*","level":"`)
	agentNoted = pattern.Of(`(?:^| )time=\S+ level=(?:(?:WARN|ERROR) |INFO msg="(?:agent ends|ranks ended)")|^\{"time":"[^"]*","level":(?:"WARN"|"ERROR"|"INFO","msg":"(?:agent ends|ranks ended)")`)
)

// Line takes a line, without its end.
func (r *reading) Line(text string) {
	matches := func(re func() *regexp.Regexp) bool { return re().MatchString(text[:min(len(text), logs.MaxLine)]) }
	r.agent = r.agent || matches(agentSays)
	if !r.agent || !matches(ofSlog) { // what an agent says is no rank's word: it tells of all its sessions
		r.Reader.Line(text)
	}
	switch {
	case matches(agentBegan):
		r.agent, r.noted = true, nil // an earlier agent's lines tell of an earlier container
	case matches(agentNoted):
		if r.noted = append(r.noted, text[:min(len(text), logs.MaxLine)]); len(r.noted) > mostNoted {
			r.noted = r.noted[1:]
		}
	}
}

// nothing says of logs that tell of no failure what they tell.
func (r *reading) nothing() string {
	if !r.agent {
		return "no failure that mpiup knows is in these lines\n" + logs.StillRuns + "\n"
	}
	var b strings.Builder
	b.WriteString("this is an agent's log: the verdict on a run stands in its launcher's\n")
	if len(r.noted) > 0 {
		b.WriteString("what the agent noted last:\n")
	}
	for _, l := range r.noted {
		b.WriteString("  " + visible.Line(l) + "\n")
	}
	return b.String()
}
