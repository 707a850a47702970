package logs

import (
	_ "embed"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/mpiup/mpiup/internal/pattern"
	"github.com/mpiup/mpiup/launcher/verdict"
)

//go:embed texts.txt
var textsText string

// allTexts are the rows of texts.txt by name: its texts, and its patterns in turn with their words.
var allTexts = sync.OnceValue(func() map[string][]string {
	all := map[string][]string{}
	for _, c := range rows(textsText, 2) {
		all[c[0]] = append(all[c[0]], c[1])
	}
	return all
})

func texts(name string) []string { return allTexts()[name] }

// has says that a line has one of the texts of a name.
func has(line, name string) bool {
	return slices.ContainsFunc(texts(name), func(s string) bool { return strings.Contains(line, s) })
}

// is says that a kind is among those of a name.
func is(k verdict.Kind, name string) bool { return slices.Contains(texts(name), string(k)) }

// hinted is the pattern of a name, and its words.
func hinted(name string) func() pattern.Hinted {
	return sync.OnceValue(func() pattern.Hinted {
		words, text := patternOf(name)
		return pattern.With(strings.Join(words, "|"), text)
	})
}

// unhinted is the pattern of a name that has no words.
func unhinted(name string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp {
		_, text := patternOf(name)
		return regexp.MustCompile(text)
	})
}

func patternOf(name string) (words []string, text string) {
	var all []string
	for _, c := range rows(textsText, 3) {
		if c[0] != name {
			continue
		}
		if all = append(all, "(?:"+c[2]+")"); c[1] != "" {
			words = append(words, c[1])
		}
	}
	return words, strings.Join(all, "|")
}

var (
	ended, met, passed, shrugs                    = hinted("ended"), hinted("met"), hinted("passed"), hinted("shrugs")
	alone, wants, command                         = hinted("alone"), hinted("wants"), hinted("command")
	raisedLine, warning, complaint, measured      = hinted("raisedLine"), hinted("warning"), hinted("complaint"), hinted("measured")
	exitCode, bySignal                            = hinted("exitCode"), hinted("bySignal")
	progress, isBad, reasons                      = unhinted("progress"), unhinted("isBad"), unhinted("reasons")
	grouped, shellsJob, another, stackLine        = unhinted("grouped"), unhinted("shellsJob"), unhinted("another"), unhinted("stackLine")
	srunTasks, ofProcess, levelWord               = hinted("srunTasks"), hinted("ofProcess"), hinted("levelWord")
	levelLetter                                   = hinted("levelLetter")
	loose, enqueued, timedOut, others             = unhinted("loose"), hinted("enqueued"), hinted("timedOut"), unhinted("others")
	stalledRank, elasticRank, jobSize, rankInside = unhinted("stalledRank"), hinted("elasticRank"), hinted("jobSize"), unhinted("rankInside")
	guess, tried, hydraCode                       = unhinted("guess"), unhinted("tried"), unhinted("hydraCode")
	ownLog, mixed, numbered, bar                  = unhinted("ownLog"), hinted("mixed"), hinted("numbered"), unhinted("bar")
)
