package mpirun

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// outputDir is --output-filename DIR[:nojobid][,nocopy]. What follows a colon and is none of these
// is lost with Open MPI; here it is an error.
func (p *parser) outputDir(v []string) error {
	dir, rest, _ := strings.Cut(v[0], ":")
	if dir == "" {
		return errors.New("a directory has a name")
	}
	p.line.OutputDir = dir
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
			return errors.New("files of that name are not done: write directory=DIR")
		case word == "":
		default:
			return unknownItem(item, "tag, timestamp, merge-stderr-to-stdout and directory=DIR")
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
