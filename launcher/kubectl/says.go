package kubectl

import (
	"fmt"
	"strings"

	"github.com/mpiup/mpiup/internal/pattern"
)

// May is the words of the kubectl that says whether the user may do what the line asks for. It prints no where he may not.
func (l *Line) May() []string {
	verb, part := l.right()
	return append([]string{"auth", "can-i", verb, "pods", "--subresource=" + part}, l.where...)
}

// right is what the line needs beside reading pods.
func (l *Line) right() (verb, part string) {
	if l.Reads() || l.Collects() {
		return "get", "log"
	}
	return "create", "exec"
}

// MayNot is a sentence where May printed no; "" for all else.
func (l *Line) MayNot(printed string) string {
	if word, _, _ := strings.Cut(strings.TrimSpace(printed), " "); word != "no" {
		return ""
	}
	verb, part := l.right()
	return l.lacks(verb, "pods/"+part)
}

// forbidden is what an API server says of a right that is lacking (k8s.io/apiserver, responsewriters.Forbidden).
var forbidden = pattern.Of(`cannot (\S+) resource "([^"]+)" in API group`)

// Lacks is a sentence about the right that the user lacks, by what kubectl said; "" where it was something else.
func (l *Line) Lacks(said string) string {
	m := forbidden().FindStringSubmatch(said)
	if m == nil {
		return ""
	}
	why := l.lacks(m[1], m[2])
	if m[1] == "list" && l.Pod == "" {
		why += "; with --pod NAME the verb get is enough"
	}
	return why
}

func (l *Line) lacks(verb, resource string) string {
	where := strings.Join(append([]string{""}, l.where...), " ")
	return fmt.Sprintf("you may not %s %s in %s: ask for a role there with the verb %s on %s (kubectl auth can-i %s %s%s)",
		verb, resource, l.place(), verb, resource, verb, resource, where)
}
