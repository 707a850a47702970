package main

import (
	"fmt"
	"strings"
)

// exception silences a rule in a file, or in every file (".").
type exception struct {
	rule, file, reason string
	used               bool
}

// exceptions are a table's, a line each: the rule, the file and the reason.
type exceptions []*exception

func readExceptions(text string) (es exceptions, err error) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.SplitN(line, " ", 3)
		if len(f) < 3 || len(f[2]) < 10 {
			return nil, fmt.Errorf("line %d: %q is not a rule, a file and a reason", n, line)
		}
		es = append(es, &exception{rule: f[0], file: f[1], reason: f[2]})
	}
	return es, nil
}

// everywhere are the rules that no file is held to.
func (es exceptions) everywhere() (rules []string) {
	for _, e := range es {
		if e.file == "." {
			rules = append(rules, e.rule)
		}
	}
	return rules
}

// silences reports whether a finding stays.
func (es exceptions) silences(rule, file string) bool {
	for _, e := range es {
		if e.rule == rule && e.file == file {
			e.used = true
			return true
		}
	}
	return false
}

// stale are those for a file that silenced nothing.
func (es exceptions) stale() (lines []string) {
	for _, e := range es {
		if !e.used && e.file != "." {
			lines = append(lines, e.rule+" "+e.file+" silences nothing any more: take the line out")
		}
	}
	return lines
}
