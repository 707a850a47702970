// Command lint runs gosec over packages of mpiup, by its library, so that nothing of gosec's own command (clients
// of language models) is built or fetched.
//
//	lint EXCEPTIONS DIRECTORY...
//
// It prints what gosec finds and EXCEPTIONS does not excuse, and lines of EXCEPTIONS that excuse nothing; the exit
// code is then 1. Files are named from the working directory. Tests and generated files are not looked at.
package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"

	"github.com/securego/gosec/v2"
	"github.com/securego/gosec/v2/analyzers"
	"github.com/securego/gosec/v2/rules"
)

func main() {
	complaints, err := run(os.Args[1], os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "lint:", err)
		os.Exit(1)
	}
	for _, c := range complaints {
		fmt.Println(c)
	}
	if len(complaints) > 0 {
		os.Exit(1)
	}
}

func run(table string, directories []string) (complaints []string, err error) {
	text, err := os.ReadFile(table)
	if err != nil {
		return nil, err
	}
	excepted, err := readExceptions(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", table, err)
	}
	wd, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	a := gosec.NewAnalyzer(gosec.NewConfig(), false, true, false, 2, log.New(io.Discard, "", 0))
	a.LoadRules(rules.Generate(false, rules.NewRuleFilter(true, excepted.everywhere()...)).RulesInfo())
	a.LoadAnalyzers(analyzers.Generate(false, analyzers.NewAnalyzerFilter(true, excepted.everywhere()...)).AnalyzersInfo())
	if err := a.Process(nil, directories...); err != nil {
		return nil, err
	}
	issues, _, failed := a.Report()
	for file, errs := range failed { // a package that does not build was not looked at
		complaints = append(complaints, fmt.Sprintf("%s: gosec could not read it: %v", file, errs))
	}
	for _, i := range issues {
		file, err := filepath.Rel(wd, i.File)
		if err != nil {
			return nil, err
		}
		if !excepted.silences(i.RuleID, file) {
			complaints = append(complaints, fmt.Sprintf("%s:%s: %s: %s", file, i.Line, i.RuleID, i.What))
		}
	}
	for _, line := range excepted.stale() {
		complaints = append(complaints, table+": "+line)
	}
	slices.Sort(complaints)
	return complaints, nil
}
