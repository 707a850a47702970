package mpirun

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// outputName is --output-filename, a directory up to Open MPI 4.1 and how files' names begin as of 5.
func (p *parser) outputName(v []string) error { return p.outputTo(v[0], true) }

// outputDir is --output-directory.
func (p *parser) outputDir(v []string) error { return p.outputTo(v[0], false) }

// outputTo is DIR[:nojobid][,nocopy]. What follows a colon and is none of these is lost with Open MPI 4.1; here
// it is an error, as with 5.
func (p *parser) outputTo(to string, name bool) error {
	dir, rest, _ := strings.Cut(to, ":")
	switch {
	case dir == "" && name:
		return errors.New("a file has a name")
	case dir == "":
		return errors.New("a directory has a name")
	case p.line.OutputDir != "" && p.line.OutputName != name:
		return errors.New("output goes to files of a directory or to files of a name; say one")
	}
	p.line.OutputDir, p.line.OutputName = dir, name
	for m := range strings.FieldsFuncSeq(strings.ToLower(rest), func(r rune) bool { return r == ',' || r == ':' }) {
		switch m {
		case "nojobid":
			p.line.NoJobID = true
		case "nocopy":
			p.line.NoCopy = true
		case "jobid", "copy":
		default:
			return fmt.Errorf("modifier %.40q is not known; nojobid and nocopy are", m)
		}
	}
	return nil
}

// xml is --xml. Who reads such output is told that it gets none.
func (p *parser) xml([]string) error {
	p.line.Warnings = append(p.line.Warnings, "--xml has no effect: output stays as ranks write it (mpiup run --output json has an object a line)")
	return nil
}

// output is Open MPI 5's --output LIST, in which beginnings of words are enough.
func (p *parser) output(v []string) error {
	for item := range strings.SplitSeq(v[0], ",") {
		word, value, _ := strings.Cut(item, "=")
		word, modifiers, _ := strings.Cut(strings.ToLower(word), ":")
		begins := func(full string, least int) bool { return len(word) >= least && strings.HasPrefix(full, word) }
		switch {
		case begins("tag-detailed", 2), begins("tag-fullname", 2):
			p.line.TagOutput = true
		case begins("timestamp", 2):
			p.line.Timestamps = true
		case begins("merge-stderr-to-stdout", 1):
			p.line.Merge = true
		case begins("directory", 1):
			if err := p.outputDir([]string{value}); err != nil {
				return err
			}
		case begins("filename", 1):
			if err := p.outputName([]string{value}); err != nil {
				return err
			}
		case word == "":
		default:
			return unknownItem(item, "tag, timestamp, merge-stderr-to-stdout, directory=DIR and file=NAME")
		}
		for m := range strings.FieldsFuncSeq(modifiers, func(r rune) bool { return r == ':' }) {
			if m != "raw" {
				return unknownItem(m, "nocopy after directory=DIR:")
			}
		}
	}
	return nil
}

// pattern is one of Hydra's patterns, of a file or of what stands before lines.
func (p *parser) pattern(to *string, text string, file bool) error {
	switch {
	case text == "":
		return errors.New("the pattern is empty")
	case *to != "" || !file && p.line.TagOutput:
		return errors.New("what stands there is said already; say it once")
	}
	for rest := text; ; {
		_, after, found := strings.Cut(rest, "%")
		if !found {
			break
		}
		known := "rghp%"
		if !file {
			known += "t"
		}
		if after == "" || !strings.Contains(known, after[:1]) {
			return fmt.Errorf("%%%.1s stands for nothing here; use %%r, %%h, %%p, %%g and %%%%", after)
		}
		rest = after[1:]
	}
	*to = text
	if file && !filepath.IsAbs(text) {
		*to = filepath.Join(strings.ReplaceAll(p.out.Dir, "%", "%%"), text)
	}
	return nil
}

func unknownItem(item, known string) error {
	return fmt.Errorf("%.40q is not done; %s are", item, known)
}

// display is Open MPI 5's --display LIST.
func (p *parser) display(v []string) error {
	for item := range strings.SplitSeq(strings.ToLower(v[0]), ",") {
		word, _, _ := strings.Cut(item, ":")
		switch word {
		case "map", "map-devel":
			p.line.DisplayMap = true
		case "bind", "bindings":
			p.line.Bindings = true
		case "allocation", "alloc", "topo", "cpus", "proctable":
			p.without("--display " + item)
		default:
			return fmt.Errorf("%.40q is not known; map and bind are", item)
		}
	}
	return nil
}
