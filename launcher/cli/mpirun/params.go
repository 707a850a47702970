package mpirun

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// paramFiles is --am and --tune: files of parameters, in the order of the list.
func (p *openMPIParser) paramFiles(v []string) error {
	files := slices.DeleteFunc(strings.Split(v[0], ","), func(f string) bool { return f == "" })
	if len(files) == 0 {
		return errors.New("a file has a name")
	}
	p.tuned = append(p.tuned, files...)
	return nil
}

// tune takes the files' parameters and variables where neither the command line nor the environment
// has them. Of several files the last has its way. Two ways to write them are known, that of
// mca-params.conf and that of Open MPI 4's --tune:
//
//	btl = self,tcp      # of mca_base_param_files(7)
//	-x A=1 --mca btl self,tcp
func (p *openMPIParser) tune() error {
	given := slices.Clone(p.ForAll)
	for i := len(p.tuned) - 1; i >= 0; i-- { // the last first, as what is there stays
		file, text, err := p.readTuned(p.tuned[i])
		if errors.Is(err, fs.ErrNotExist) { // no more with Open MPI
			p.Line.Warnings = append(p.Line.Warnings, fmt.Sprintf("no file of parameters %.200s, here or in %s", p.tuned[i], paramSets))
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		env, err := p.tuneFile(file, string(text))
		if err != nil {
			return err
		}
		given = append(env, given...)
	}
	p.ForAll = given
	return nil
}

// paramSets is where Open MPI's packages have files of parameters.
const paramSets = "/usr/share/openmpi/amca-param-sets"

func (p *openMPIParser) readTuned(name string) (file string, text []byte, err error) {
	for _, file = range []string{p.Absolute(name), filepath.Join(paramSets, name)} {
		if text, err = p.Out.ReadFile(file); !errors.Is(err, fs.ErrNotExist) || filepath.IsAbs(name) {
			break
		}
	}
	return file, text, err
}

func (p *openMPIParser) tuneFile(file, text string) (env []string, err error) {
	n := 0
	for l := range strings.Lines(text) {
		n++
		l = line.Trim(l)
		var more []string
		switch {
		case l == "" || l[0] == '#' || strings.HasPrefix(l, "//"):
		case l[0] == '-':
			more, err = p.tuneOptions(line.Words(l))
		default:
			name, value, found := strings.Cut(l, "=")
			if !found {
				err = fmt.Errorf("%.60q is neither NAME = VALUE nor an option", l)
				break
			}
			more, err = p.tuneParam(line.Trim(name), line.Trim(value))
		}
		if err != nil {
			return nil, fmt.Errorf("%s line %d: %w", file, n, err)
		}
		env = append(env, more...)
	}
	return env, nil
}

// tuneOptions reads -x and --mca of one line. Words have no quotes but those around a value.
func (p *openMPIParser) tuneOptions(words []string) (env []string, err error) {
	for len(words) > 0 {
		word := words[0]
		take, name := 0, strings.TrimLeft(word, "-")
		switch {
		case len(word)-len(name) > 2:
		case name == "x":
			take = 2
		case name == "mca" || name == "gmca" || name == "omca":
			take = 3
		}
		switch {
		case take == 0:
			return nil, fmt.Errorf("%.60s is not read from files: -x and --mca are", word)
		case len(words) < take:
			return nil, fmt.Errorf("%s needs %s", word, line.Values(take-1))
		}
		var more []string
		if take == 3 {
			more, err = p.tuneParam(words[1], words[2])
		} else {
			more, err = p.exported(words[1])
		}
		if err != nil {
			return nil, err
		}
		env, words = append(env, more...), words[take:]
	}
	return env, nil
}

// tuneParam is a parameter of a file as a variable, if the launcher does not know better.
func (p *openMPIParser) tuneParam(name, value string) ([]string, error) {
	if err := parameterName(name); err != nil {
		return nil, err
	}
	if _, given := p.params[param{0, name}]; given {
		return nil, nil
	}
	if _, set := p.Out.Lookup("OMPI_MCA_" + name); set {
		return nil, nil
	}
	p.params[param{0, name}] = unquoted(value)
	if ofLauncher(name) {
		return nil, p.ownParam(name, unquoted(value))
	}
	return []string{"OMPI_MCA_" + name + "=" + unquoted(value)}, nil
}

func (p *openMPIParser) reportPID(v []string) error {
	switch v[0] {
	case "":
		return errors.New("a file has a name; - is standard output and + standard error")
	case "-", "+":
		p.Line.ReportPID = v[0]
	default:
		p.Line.ReportPID = p.Absolute(v[0])
	}
	return nil
}
