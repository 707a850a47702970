package mpirun

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// printing is the options that say what is done with output, and what is shown.
type printing struct{ *openMPIParser }

func (p printing) rows() []line.Row {
	return []line.Row{
		{Names: "tag-output", Level: line.Done, Means: "`[1,rank]<stdout>:` before every line, with a blank behind it as of Open MPI 5",
			Set: line.True(&p.Line.TagOutput)},
		{Names: "timestamp-output", Level: line.Done, Means: "the time before every line", Set: line.True(&p.Line.Timestamps)},
		{Names: "merge-stderr-to-stdout", Level: line.Done, Means: "one stream for both", Set: line.True(&p.Line.Merge)},
		{Names: "output-filename", Args: 1, Level: line.Done, Set: p.outputName,
			Means: "`DIR[:nojobid][,nocopy]`: a directory with DIR/1/rank.N/stdout and stderr, and a copy on the terminal. With Open MPI 5 files FILE.prterun-HOST-PID@1.N.out and .err instead. Lines have their tags there, too"},
		{Names: "output-directory", Args: 1, Level: line.Done, Set: p.outputDir, Means: "as `--output directory=DIR`"},
		{Names: "output", Args: 1, Level: line.Done, Set: p.output,
			Means: "`tag`, `tag-detailed` (with host and process number), `tag-fullname` (the job's name), `rank`, `timestamp`, `merge-stderr-to-stdout`, `directory=DIR` (DIR/prterun-HOST-PID@1/rank.N/stdout and stderr), `file=NAME` (as `--output-filename`) and their beginnings. A copy of what is in files is on the terminal, unless `:nocopy` is said. Others are refused (Open MPI 5)"},
		{Names: "stdin", Args: 1, Level: line.Done, Means: "who reads the launcher's standard input: a rank, `all` or `none`", Set: p.Stdin},
		{Names: "display-map", Level: line.Done, Means: "shows hosts, ranks and their CPUs as Open MPI does", Set: line.True(&p.Line.DisplayMap)},
		{Names: "display", Args: 1, Level: line.Done, Means: "`map`, `bind`; others have no effect (Open MPI 5)", Set: p.display},
		{Names: "quiet q", Level: line.Done, Means: "no warnings", Set: line.True(&p.Line.Quiet)},
		{Names: "display-allocation display-devel-map display-devel-allocation display-diffable-map display-topo output-proctable show-progress",
			Level: line.NoEffect,
			Means: "`--display-map` shows the plan"},
		{Names: "xml", Level: line.NoEffect, Set: p.xml, Means: "output stays as ranks write it, which is said; `mpiup run --output json` has an object a line"},
		{Names: "xml-file xterm", Args: 1, Level: line.Refused, Means: "use --output-filename DIR, or mpiup run --output json"},
		{Names: "stream-buffering", Args: 1, Level: line.NoEffect, Means: "ranks' output is shown line by line"},
	}
}

// outputName is --output-filename, a directory up to Open MPI 4.1 and how files' names begin as of 5.
func (p printing) outputName(v []string) error { return p.outputTo(v[0], true) }

func (p printing) outputDir(v []string) error { return p.outputTo(v[0], false) }

// outputTo is DIR[:nojobid][,nocopy]. What follows a colon and is none of these is lost with Open MPI 4.1; here
// it is an error, as with 5.
func (p printing) outputTo(to string, name bool) error {
	dir, rest, _ := strings.Cut(to, ":")
	switch {
	case dir == "" && name:
		return errors.New("a file has a name")
	case dir == "":
		return errors.New("a directory has a name")
	case p.Line.OutputDir != "" && p.Line.OutputName != name:
		return errors.New("output goes to files of a directory or to files of a name; say one")
	}
	p.Line.OutputDir, p.Line.OutputName = dir, name
	for m := range strings.FieldsFuncSeq(strings.ToLower(rest), func(r rune) bool { return r == ',' || r == ':' }) {
		switch m {
		case "nojobid":
			p.Line.NoJobID = true
		case "nocopy":
			p.Line.NoCopy = true
		case "jobid", "copy":
		default:
			return fmt.Errorf("modifier %.40q is not known; nojobid and nocopy are", m)
		}
	}
	return nil
}

// xml is --xml. Who reads such output is told that it gets none.
func (p printing) xml([]string) error {
	p.Line.Warnings = append(p.Line.Warnings, "--xml has no effect: output stays as ranks write it (mpiup run --output json has an object a line)")
	return nil
}

// output is Open MPI 5's --output LIST, in which beginnings of words are enough.
func (p printing) output(v []string) error {
	for item := range strings.SplitSeq(v[0], ",") {
		word, value, _ := strings.Cut(item, "=")
		word, modifiers, _ := strings.Cut(strings.ToLower(word), ":")
		begins := func(full string, least int) bool { return len(word) >= least && strings.HasPrefix(full, word) }
		switch {
		case begins("tag", 2):
			p.Line.TagOutput = true
			if p.Line.TagBy == "rank" { // which a tag says already
				p.Line.TagBy = ""
			}
		case begins("tag-detailed", 4):
			p.Line.TagOutput, p.Line.TagBy = true, "detailed"
		case begins("tag-fullname", 4):
			p.Line.TagOutput, p.Line.TagBy = true, "fullname"
		case begins("rank", 1) && p.Line.TagOutput:
		case begins("rank", 1):
			p.Line.TagOutput, p.Line.TagBy = true, "rank"
		case begins("timestamp", 2):
			p.Line.Timestamps = true
		case begins("merge-stderr-to-stdout", 1):
			p.Line.Merge = true
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
			return unknownItem(item, "tag, tag-detailed, tag-fullname, rank, timestamp, merge-stderr-to-stdout, directory=DIR and file=NAME")
		}
		for m := range strings.FieldsFuncSeq(modifiers, func(r rune) bool { return r == ':' }) {
			if m != "raw" {
				return unknownItem(m, "nocopy after directory=DIR:")
			}
		}
	}
	return nil
}

func unknownItem(item, known string) error {
	return fmt.Errorf("%.40q is not done; %s are", item, known)
}

// display is Open MPI 5's --display LIST.
func (p printing) display(v []string) error {
	for item := range strings.SplitSeq(strings.ToLower(v[0]), ",") {
		word, _, _ := strings.Cut(item, ":")
		switch word {
		case "map", "map-devel":
			p.Line.DisplayMap = true
		case "bind", "bindings":
			p.Line.Bindings = true
		case "allocation", "alloc", "topo", "cpus", "proctable":
			p.Without("--display " + item)
		default:
			return fmt.Errorf("%.40q is not known; map and bind are", item)
		}
	}
	return nil
}
