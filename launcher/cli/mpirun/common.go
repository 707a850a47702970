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
		{names: "wdir wd", args: 1, level: Done, local: true, means: "working directory; a missing one is an error",
			set: func(p *parser, v []string) error { p.ctx.Wdir = v[0]; return nil }},
		{names: "version V", level: Done, means: "says which launcher is imitated", set: func(p *parser, _ []string) error { p.line.Version = true; return nil }},
		{names: "help h", level: Done, means: "says where the options are listed", set: func(p *parser, _ []string) error { p.line.Help = true; return nil }},
		{names: "v verbose", level: Done, means: "says what mpiup does", set: func(p *parser, _ []string) error { p.line.Verbose++; return nil }},
		{names: "dry-run", level: Done, means: "prints the plan of ranks and hosts and starts nothing (mpiup's own)",
			set: func(p *parser, _ []string) error { p.line.DryRun = true; return nil }},
		{names: "machinefile", args: 1, level: Done, means: "file with the hosts", set: (*parser).file},
		{names: "map-by", args: 1, level: Done, means: "slot, node, ppr:N:node; objects within a host map as slot does", set: (*parser).mapBy},
		{names: "bind-to", args: 1, level: NoEffect, means: "ranks are not bound yet", set: (*parser).bindTo},
		{names: "preload-binary", level: Refused, means: "the program is not copied to hosts: put it into the image or on a shared volume"},
	}
}

const maxRanks = 1 << 20

func number(text string, least int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > maxRanks {
		return 0, fmt.Errorf("%.40q is no number from %d to %d", text, least, maxRanks)
	}
	return n, nil
}

func (p *parser) ranks(v []string) (err error) {
	p.ctx.N, err = number(v[0], 1)
	return err
}

func (p *parser) perHost(v []string) (err error) {
	p.line.PerHost, err = number(v[0], 1)
	return err
}

func (p *parser) file(v []string) error {
	if p.hostfile != "" && p.hostfile != v[0] {
		return fmt.Errorf("the hosts are in %s already; give one file", p.hostfile)
	}
	p.hostfile = v[0]
	return nil
}

func (p *parser) list(v []string) error {
	if strings.TrimSpace(v[0]) == "" {
		return errors.New("the list is empty")
	}
	p.listed = append(p.listed, v[0])
	return nil
}

func (p *parser) timeout(v []string) error {
	n, err := number(v[0], 0)
	p.line.Timeout = time.Duration(n) * time.Second
	return err
}

func (p *parser) stdin(v []string) error {
	switch v[0] {
	case "all", "none":
	default:
		if _, err := number(v[0], 0); err != nil {
			return errors.New("it is a rank, all or none")
		}
	}
	p.line.Stdin = v[0]
	return nil
}

func on(set func(*Line)) func(*parser, []string) error {
	return func(p *parser, _ []string) error { set(&p.line); return nil }
}
