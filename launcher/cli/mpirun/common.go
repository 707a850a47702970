package mpirun

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// commonRows are options that both families have with one meaning.
func commonRows() []row {
	return []row{
		{names: "n np", args: 1, level: Done, local: true, means: "ranks of the program", set: (*parser).ranks},
		{names: "wdir wd", args: 1, level: Done, local: true, means: "working directory; a missing one is an error", set: (*parser).wdir},
		{names: "version V", level: Done, means: "says which launcher is imitated", set: on(func(l *Line) { l.Version = true })},
		{names: "help h", level: Done, means: "lists the options", set: on(func(l *Line) { l.Help = true })},
		{names: "v verbose", level: Done, means: "says what mpiup does, whose command line this is, and which options have no effect",
			set: on(func(l *Line) { l.Verbose++ })},
		{names: "dry-run", level: Done, means: "prints the plan of ranks and hosts and starts nothing (mpiup's own)",
			set: on(func(l *Line) { l.DryRun = true })},
		{names: "report-bindings", level: Done, means: "shows each rank's CPUs when it has started, as Open MPI does", set: on(func(l *Line) { l.Bindings = true })},
	}
}

const (
	maxRanks   = 1 << 20
	maxGPUs    = 256
	maxSeconds = 1 << 30 // 34 years
)

func number(text string, least, most int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%.40q is no number from %d to %d", text, least, most)
	}
	return n, nil
}

func (p *parser) ranks(v []string) (err error) {
	p.ctx.N, err = number(v[0], 1, maxRanks)
	return err
}

func (p *parser) wdir(v []string) error {
	if v[0] == "" {
		return errors.New("a directory has a name")
	}
	p.ctx.Wdir = v[0]
	return nil
}

func (p *parser) preloadBinary([]string) error {
	p.ctx.PreloadBinary = true
	return nil
}

func (p *parser) preloadFiles(v []string) error {
	if strings.Trim(v[0], ",") == "" {
		return errors.New("a file has a name")
	}
	p.ctx.PreloadFiles = append(p.ctx.PreloadFiles, v[0])
	return nil
}

func (p *parser) perHost(v []string) (err error) {
	p.line.PerHost, err = number(v[0], 1, maxRanks)
	return err
}

func (p *parser) file(v []string) error {
	switch {
	case v[0] == "":
		return errors.New("a file has a name")
	case p.hostfile != "" && p.hostfile != v[0]:
		return fmt.Errorf("the hosts are in %s already; give one file", p.hostfile)
	case p.line.Family == Hydra && (p.listed != nil || p.ctx.listed != nil):
		return errors.New("the hosts are listed already; give a list or a file")
	}
	p.hostfile = v[0]
	return nil
}

// list is hosts for all programs.
func (p *parser) list(v []string) error { return p.addList(&p.listed, v[0]) }

// ownList is hosts for one.
func (p *parser) ownList(v []string) error { return p.addList(&p.ctx.listed, v[0]) }

func (p *parser) addList(to *[]string, list string) error {
	switch {
	case strings.TrimSpace(list) == "":
		return errors.New("the list is empty")
	case p.line.Family == Hydra && (*to != nil || p.hostfile != ""):
		return errors.New("the hosts are named already")
	}
	*to = append(*to, list)
	return nil
}

func (p *parser) timeout(v []string) error {
	n, err := number(v[0], 0, maxSeconds)
	p.line.Timeout = time.Duration(n) * time.Second
	return err
}

func (p *parser) stdin(v []string) error {
	switch v[0] {
	case "all", "none":
	default:
		if _, err := number(v[0], 0, maxRanks); err != nil {
			return fmt.Errorf("%.40q is neither a rank nor all or none", v[0])
		}
	}
	p.line.Stdin = v[0]
	return nil
}

// without notes that something was accepted and has no effect.
func (p *parser) without(what string) { p.line.Without = append(p.line.Without, what) }

// as is an option that stands for another with a value.
func as(set func(*parser, []string) error, value string) func(*parser, []string) error {
	return func(p *parser, _ []string) error { return set(p, []string{value}) }
}

func on(set func(*Line)) func(*parser, []string) error {
	return func(p *parser, _ []string) error { set(&p.line); return nil }
}
