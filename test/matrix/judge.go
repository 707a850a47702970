package main

import (
	"fmt"
	"regexp"
	"strings"
)

// ended is how a run of mpiup ended.
type ended struct {
	stdout, stderr string
	code           int   // of mpiup run, -1 when it had to be killed
	err            error // why there is no code
	late           bool  // it was stopped because its time was over
	left           []string
}

// openpmix's examples and tests exit with 0 and say on standard error what went wrong.
var exampleFailed = regexp.MustCompile(`(?im)^.*(failed|wrong|mismatch|not found|timed? ?out).*$`)

// judge says what the run is worth, and why it is not ok.
func (p program) judge(e ended, at where) (word, string) {
	switch {
	case e.late:
		return fails, fmt.Sprintf("not over after %v", p.limit())
	case e.code != p.code:
		return fails, fmt.Sprintf("exit code %d, not %d: %s", e.code, p.code, lastLine(e.stderr))
	case !strings.Contains(e.stdout, p.want[at]):
		return fails, fmt.Sprintf("printed %q, not %q", lastLine(e.stdout), p.want[at])
	}
	host := map[where]string{one: "launcher", several: "w0"}[at] // where rank 1 is
	if p.cause != "" {
		want := regexp.MustCompile(strings.ReplaceAll(p.cause, "{host}", host))
		if !want.MatchString(e.stderr) {
			return fails, fmt.Sprintf("the cause is told as %q, not as %v", lastLine(e.stderr), want)
		}
	}
	if p.says != "" && !strings.Contains(e.stderr, p.says) {
		return fails, fmt.Sprintf("it does not say %q", p.says)
	}
	if p.kind == example || p.kind == simple {
		text := e.stderr
		if p.says != "" {
			text = strings.ReplaceAll(text, p.says, "")
		}
		if p.noise != "" {
			text = regexp.MustCompile(`(?m)^.*(`+p.noise+`).*$`).ReplaceAllString(text, "")
		}
		if said := exampleFailed.FindString(text); said != "" {
			return fails, "it says " + strings.TrimSpace(said)
		}
	}
	if len(e.left) > 0 {
		return fails, "left behind: " + strings.Join(e.left, "; ")
	}
	return ok, ""
}

// lastLine is the last line that says something, shortened.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	last := strings.TrimSpace(lines[len(lines)-1])
	if len(last) > 300 {
		last = last[:300] + "..."
	}
	return last
}
