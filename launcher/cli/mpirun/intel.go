package mpirun

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

func (p *hydraParser) outputFrom(v []string) error {
	if _, err := line.Number(v[0], 0, line.MaxRanks); err != nil {
		return err
	}
	p.Line.OutputFrom = v[0]
	return nil
}

// tools is Intel MPI's -gtool "TOOL ARGS:RANKS;...". The last colon of an item begins its ranks.
func (p *hydraParser) tools(v []string) error {
	for item := range strings.FieldsFuncSeq(v[0], func(r rune) bool { return r == ';' || r == '\n' || r == '\r' }) {
		if strings.TrimSpace(item) == "" {
			continue
		}
		i := strings.LastIndexByte(item, ':')
		words := line.Words(item[:max(i, 0)])
		ranks := strings.TrimSpace(item[i+1:])
		switch {
		case i < 0 || ranks == "":
			return fmt.Errorf("%.60q names no ranks: write TOOL:0-3, or TOOL:all", item)
		case len(words) == 0:
			return fmt.Errorf("%.60q names no tool", item)
		case strings.ContainsAny(ranks, "=@"):
			return fmt.Errorf("%.60q: launch modes and architectures of tools are not done: write the ranks alone", ranks)
		}
		tool := job.Tool{Argv: words}
		if ranks != "all" {
			var err error
			if tool.Ranks, err = idset.Parse(ranks); err != nil {
				return fmt.Errorf("ranks of %.40s: %w", words[0], err)
			}
		}
		p.Line.Tools = append(p.Line.Tools, tool)
	}
	if len(p.Line.Tools) == 0 {
		return errors.New("no tool is named")
	}
	return nil
}

// umask is Intel MPI's -umask MASK. A shell sets it, around all tools: a process that is started keeps its
// parent's, and the agent's is not a rank's business.
func (p *hydraParser) umask(v []string) error {
	if mask, err := strconv.ParseUint(v[0], 8, 16); err != nil || mask > 0o777 {
		return fmt.Errorf("%.40q is no mask from 000 to 777", v[0])
	}
	p.mask = []string{"/bin/sh", "-c", "umask " + v[0] + ` && exec "$0" "$@"`}
	return nil
}

// masked puts what sets the mask before all tools, and before the programs of ranks that have none.
func (p *hydraParser) masked() {
	if p.mask == nil {
		return
	}
	for i := range p.Line.Tools {
		t := &p.Line.Tools[i]
		t.Argv = slices.Concat(p.mask, t.Argv)
	}
	p.Line.Tools = append(p.Line.Tools, job.Tool{Argv: p.mask})
}

func (p *hydraParser) toolFile(v []string) error {
	text, err := p.Out.ReadFile(p.Absolute(v[0]))
	if err != nil {
		return fmt.Errorf("%s: %w", v[0], err)
	}
	return p.tools([]string{string(text)})
}
