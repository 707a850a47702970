package mpirun

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// paramFile is a file of parameters that Open MPI's launcher reads by itself:
//
//	4.1   ~/.openmpi/mca-params.conf, ETC/openmpi-mca-params.conf, or those of mca_base_param_files
//	5     ~/.prte/mca-params.conf, ETC/prte-mca-params.conf
//	      ~/.pmix/mca-params.conf, ETC/pmix-mca-params.conf, or those of PMIX_MCA_mca_base_param_files
//	      ~/.openmpi/mca-params.conf, ETC/openmpi-mca-params.conf: the ranks' parameters alone
//	both  ETC/...-mca-params-override.conf, which comes before all else
//
// Tried with 4.1.4 and 5.0.11: the command line comes before the environment, that before files, and the first file that has a parameter before the
// next; in one file the last line counts. A line without "=" is told of and passed over. Quotes mean nothing, and "#" begins a comment only where
// it begins a line.
type paramFile struct {
	places    []string // where it may be; the first that is there is read
	named     bool     // somebody named it: that it is missing is told of
	launchers bool     // the launcher's parameters count
	ranks     bool     // the ranks' count, which the launcher of Open MPI 5 hands over; that of 4.1 leaves them to the ranks' library
	override  bool     // the command line and the environment count less
}

// Of such a file no more is read: bytes of a line, parameters, and lines that are told of because they set none.
const (
	maxParamLine   = 64 << 10
	maxParams      = 4096
	maxWrongParams = 4
)

// fileParams are parameters that name files of parameters. They go to the ranks, too, whose library reads them.
var fileParams = []struct{ names, means string }{
	{"mca_base_param_files mca_param_files", "the files of parameters that are read in place of the user's and the installation's, `FILE,...`, or `none`"},
	{"mca_base_envar_file_prefix", "`--tune`"},
}

// paramsOfFiles takes the parameters of files that the real launcher would read by itself.
func (p *openMPIParser) paramsOfFiles() error {
	if p.Out.FoundFile == nil {
		return nil
	}
	set := map[string]bool{}
	for _, file := range p.paramFiles5or4() {
		name, text := p.FirstFound("mpirun", file.places)
		switch {
		case name != "":
			if err := p.takeParamFile(file, name, text, set); err != nil {
				return err
			}
		case file.named:
			p.Warn("no file of parameters %.200s (mca_base_param_files)", file.places[0])
		}
	}
	return nil
}

// paramFiles5or4 are the files of the version of Open MPI whose line this is; where nothing says which it is, those of both.
func (p *openMPIParser) paramFiles5or4() (files []paramFile) {
	five, known := p.isFive()
	if !five || !known {
		files = append(files, p.paramFilesOf4()...)
	}
	if five || !known {
		files = append(files, p.paramFilesOf5(known)...)
	}
	return files
}

func (p *openMPIParser) paramFilesOf4() []paramFile {
	files := p.namedParamFiles("OMPI_MCA_", "mca_base_param_files", "mca_param_files")
	if files == nil {
		files = []paramFile{{places: p.inHome(".openmpi/mca-params.conf")}, {places: p.inEtc("openmpi-mca-params.conf")}}
	}
	files = append(files, paramFile{places: p.inEtc("openmpi-mca-params-override.conf"), override: true})
	for i := range files {
		files[i].launchers = true
	}
	return files
}

func (p *openMPIParser) paramFilesOf5(known bool) []paramFile {
	files := []paramFile{
		{places: p.inHome(".prte/mca-params.conf"), launchers: true},
		{places: p.inEtc("prte-mca-params.conf"), launchers: true},
	}
	named := p.namedParamFiles("PMIX_MCA_", "mca_base_param_files", "mca_param_files")
	if named == nil {
		named = []paramFile{{places: p.inHome(".pmix/mca-params.conf")}, {places: p.inEtc("pmix-mca-params.conf")}}
	}
	for _, file := range named {
		file.launchers, file.ranks = true, true
		files = append(files, file)
	}
	if known {
		files = append(files,
			paramFile{places: p.inHome(".openmpi/mca-params.conf"), ranks: true},
			paramFile{places: p.inEtc("openmpi-mca-params.conf"), ranks: true},
			paramFile{places: p.inEtc("openmpi-mca-params-override.conf"), ranks: true, override: true})
	}
	return append(files, paramFile{places: p.inEtc("pmix-mca-params-override.conf"), launchers: true, ranks: true, override: true})
}

// namedParamFiles are the files that a parameter of one of some names lists, commas between; nil: none is set.
func (p *openMPIParser) namedParamFiles(prefix string, names ...string) []paramFile {
	for _, name := range names {
		list, set := p.Out.Lookup(prefix + name)
		if prefix == "OMPI_MCA_" {
			list, set = p.paramValue(name)
		}
		if !set || list == "" {
			continue
		}
		files := []paramFile{} // those of nobody where the list is "none"
		for file := range strings.SplitSeq(list, ",") {
			if file = strings.TrimSpace(file); file != "" && file != "none" {
				files = append(files, paramFile{places: []string{p.Absolute(file)}, named: true})
			}
		}
		return files
	}
	return nil
}

// inHome is a file in the user's home directory.
func (p *openMPIParser) inHome(name string) []string {
	home, _ := p.Out.Lookup("HOME")
	if !path.IsAbs(home) {
		return nil
	}
	return []string{path.Join(home, name)}
}

// inEtc is where a file of the installation may be.
func (p *openMPIParser) inEtc(name string) (places []string) {
	prefix := ""
	if p.Out.Prefix != nil {
		prefix = p.Out.Prefix(line.OpenMPI)
	}
	for _, dir := range etcOfPrefix(prefix) {
		places = append(places, path.Join(dir, name))
	}
	return places
}

// etcOfPrefix is where an Open MPI that is installed at a prefix has its files; "" is where no launcher of it was found. Debian's are in /etc/openmpi,
// Fedora's, whose prefix is /usr/lib64/openmpi, in /etc/openmpi-x86_64.
func etcOfPrefix(prefix string) []string {
	switch {
	case prefix == "":
		return []string{"/etc/openmpi", "/usr/local/etc", "/opt/openmpi/etc"}
	case prefix == "/usr":
		return []string{"/etc/openmpi"}
	case strings.HasPrefix(prefix, "/usr/lib"):
		return []string{"/etc/openmpi-x86_64", "/etc/openmpi-aarch64", path.Join(prefix, "etc")}
	}
	return []string{path.Join(prefix, "etc"), path.Join(prefix, "etc/openmpi"), "/etc/openmpi"}
}

// takeParamFile takes the parameters of one file that are not in set, and notes them there.
func (p *openMPIParser) takeParamFile(file paramFile, name, text string, set map[string]bool) error {
	for _, given := range p.readParamFile(name, text) {
		if set[given.name] && !file.override || !file.override && p.paramSetBefore(given.name) {
			continue
		}
		set[given.name] = true
		if err := p.paramOfFile(file, given); err != nil {
			return &line.ElsewhereError{Err: fmt.Errorf("%s: parameter %s: %w", given.from, given.name, err)}
		}
	}
	return nil
}

// readParamFile is what a file sets, each parameter once, in the order of the file.
func (p *openMPIParser) readParamFile(name, text string) (params []givenParam) {
	at := map[string]int{}
	add := func(given givenParam) {
		if i, twice := at[given.name]; twice {
			params[i] = given
			return
		}
		at[given.name] = len(params)
		params = append(params, given)
	}
	number, wrong := 0, 0
	for full := range strings.Lines(text) {
		number++
		from := fmt.Sprintf("%s line %d", name, number)
		one := strings.TrimSpace(full)
		given, problem := readParamLine(one)
		given.from = from
		switch {
		case problem != "":
			if wrong++; wrong <= maxWrongParams {
				p.Warn("%s: %s, and is passed over", from, problem)
			}
		case given.name == "":
		case len(params) == maxParams:
			p.Warn("%s: a file has at most %d parameters, and the rest is passed over", from, maxParams)
			return params
		default:
			add(given)
		}
	}
	if wrong > maxWrongParams {
		p.Warn("%s: %d more lines are passed over", name, wrong-maxWrongParams)
	}
	return params
}

// readParamLine is what a line without blanks around it sets, if anything, or what is wrong with it. The name of a variable for the ranks has "-x "
// before it.
func readParamLine(one string) (given givenParam, problem string) {
	name, value, found := strings.Cut(one, "=")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	words := strings.Fields(one)
	switch {
	case one == "", one[0] == '#', strings.HasPrefix(one, "//"):
		return givenParam{}, ""
	case strings.ContainsRune(one, 0), len(one) > maxParamLine:
		return givenParam{}, fmt.Sprintf("a line of %d bytes, or one with a zero byte", len(one))
	case len(words) == 3 && (words[0] == "-mca" || words[0] == "--mca") && parameterName(words[1]) == nil:
		return givenParam{name: words[1], value: words[2]}, ""
	case len(words) == 2 && words[0] == "-x":
		return givenParam{name: "-x " + words[1], value: words[1]}, ""
	case !found, parameterName(name) != nil:
		return givenParam{}, fmt.Sprintf("%.60q is no NAME = VALUE", one)
	}
	return givenParam{name: name, value: value}, ""
}

// paramSetBefore says that the command line or the environment sets a parameter.
func (p *openMPIParser) paramSetBefore(name string) bool {
	if _, given := p.params[paramOfAll(name)]; given {
		return true
	}
	for _, prefix := range []string{"OMPI_MCA_", "PRTE_MCA_"} {
		if _, set := p.Out.Lookup(prefix + name); set {
			return true
		}
	}
	return false
}

// paramOfFile is one parameter of such a file.
func (p *openMPIParser) paramOfFile(file paramFile, given givenParam) error {
	export, isExport := strings.CutPrefix(given.name, "-x ")
	switch {
	case isExport:
		env, err := p.exported(export)
		p.ForAll = append(env, p.ForAll...)
		return err
	case given.name == "mca_base_env_list":
		return p.launcherParamOfFile(given, file.override)
	case ofLauncher(given.name) || p.prrteName(given.name) && file.launchers:
		if !file.launchers {
			return nil
		}
		return p.launcherParamOfFile(given, file.override)
	case file.launchers:
		p.noteParam(given)
	}
	if file.ranks {
		p.ForAll = append([]string{"OMPI_MCA_" + given.name + "=" + given.value}, p.ForAll...)
	}
	return nil
}

// prrteName says that a parameter has a name that is PRRTE's alone.
func (p *openMPIParser) prrteName(name string) bool {
	return slices.ContainsFunc(p.prrteParams(), func(l LauncherParam) bool { return l.isNamed(name) })
}

// launcherParamOfFile is a parameter of the launcher itself; one that overrides counts whatever options were given.
func (p *openMPIParser) launcherParamOfFile(given givenParam, override bool) error {
	for _, l := range p.launcherParams() {
		if !l.isNamed(given.name) {
			continue
		}
		if !override && (p.Given["parameter "+l.Names] || p.optionGiven(l.options)) {
			return nil
		}
		p.Given["parameter "+l.Names] = true
		return l.set(given.value)
	}
	p.noteParam(given)
	return nil
}

// defaultHosts are those of the installation's default hostfile, where nothing else names any.
func (p *openMPIParser) defaultHosts() error {
	if p.Line.Entries != nil || p.Line.Otherwise != nil {
		return nil
	}
	file, text := p.installedHostfile()
	if file == "" {
		return nil
	}
	hosts, err := hostlist.ParseFile(text, file, hostlist.OpenMPI)
	if err != nil {
		return &line.ElsewhereError{Err: err}
	}
	p.Line.Otherwise, p.Line.OtherwiseFrom = hosts, file
	return nil
}

// installedHostfile is the installation's default hostfile; "" for file: there is none that names a host. Debian's names none.
func (p *openMPIParser) installedHostfile() (file, text string) {
	if p.Out.FoundFile == nil {
		return "", ""
	}
	five, known := p.isFive()
	names := []string{"openmpi-default-hostfile"}
	switch {
	case !known:
		names = append(names, "prte-default-hostfile")
	case five:
		names = []string{"prte-default-hostfile"}
	}
	for _, name := range names {
		file, text := p.FirstFound("mpirun", p.inEtc(name))
		if file != "" && !namesNoHost(text) {
			return file, text
		}
	}
	return "", ""
}

// namesNoHost says that a hostfile has blank lines and comments alone.
func namesNoHost(text string) bool {
	for one := range strings.Lines(text) {
		if one = strings.TrimSpace(one); one != "" && one[0] != '#' && !strings.HasPrefix(one, "//") {
			return false
		}
	}
	return true
}
