package logs

import (
	_ "embed"
	"slices"

	"github.com/mpiup/mpiup/internal/pattern"
	"github.com/mpiup/mpiup/launcher/verdict"
)

//go:embed texts.txt
var textsText string

var table = pattern.TableOf(textsText)

func texts(name string) []string { return table.Texts(name) }

// has says that a line has one of the texts of a name.
func has(line, name string) bool { return table.In(line, name) }

// is says that a kind is among those of a name.
func is(k verdict.Kind, name string) bool { return slices.Contains(texts(name), string(k)) }

var hinted, unhinted = table.Hinted, table.Unhinted

var (
	ended, met, passed, shrugs, troubles          = hinted("ended"), hinted("met"), hinted("passed"), hinted("shrugs"), unhinted("troubles")
	alone, wants, command                         = hinted("alone"), hinted("wants"), hinted("command")
	raisedLine, warning, complaint, measured      = hinted("raisedLine"), hinted("warning"), hinted("complaint"), hinted("measured")
	exitCode, bySignal                            = hinted("exitCode"), hinted("bySignal")
	progress, isBad, reasons                      = unhinted("progress"), unhinted("isBad"), unhinted("reasons")
	grouped, shellsJob, another, stackLine        = unhinted("grouped"), unhinted("shellsJob"), unhinted("another"), unhinted("stackLine")
	srunTasks, ofProcess, levelWord, levelLetter  = hinted("srunTasks"), hinted("ofProcess"), hinted("levelWord"), hinted("levelLetter")
	loose, enqueued, timedOut, others             = unhinted("loose"), hinted("enqueued"), hinted("timedOut"), unhinted("others")
	stalledRank, elasticRank, jobSize, rankInside = unhinted("stalledRank"), hinted("elasticRank"), hinted("jobSize"), unhinted("rankInside")
	guess, tried, hydraCode, failure              = unhinted("guess"), unhinted("tried"), unhinted("hydraCode"), unhinted("failure")
	ownLog, mixed, numbered, bar, sterns          = unhinted("ownLog"), hinted("mixed"), hinted("numbered"), unhinted("bar"), unhinted("sterns")
)
