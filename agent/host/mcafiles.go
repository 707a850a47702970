package host

import (
	"path"
	"strings"

	"github.com/mpiup/mpiup/rdma"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// maxMCAFile bounds what is read of one file in bytes.
const maxMCAFile = 64 << 10

// MCAFiles is the MCA parameters that Open MPI's own files set, by the variable that would set them, each with its
// file. Open MPI does not start TCP where an interface is included by a variable and another excluded in a
// file. mca_base_param_files names its files; else they lie in the home directory and in etc of Open MPI's prefix. The
// prefix is OPAL_PREFIX, the parent of a directory on PATH, or the distribution's. getenv reads the ranks' environment.
func MCAFiles(fsys sysfs.FS, getenv func(string) string) map[string]rdma.Param {
	found := map[string]rdma.Param{}
	for _, name := range mcaFiles(getenv) {
		text, err := fsys.Prefix(strings.TrimPrefix(name, "/"), maxMCAFile)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			line, _, _ = strings.Cut(line, "#")
			param, value, ok := strings.Cut(line, "=")
			variable := "OMPI_MCA_" + strings.TrimSpace(param)
			if ok && strings.TrimSpace(param) != "" && found[variable].File == "" {
				found[variable] = rdma.Param{File: name, Value: strings.TrimSpace(value)}
			}
		}
	}
	return found
}

// mcaFiles is where those files may be, absolute and clean.
func mcaFiles(getenv func(string) string) (files []string) {
	add := func(name string) {
		if path.IsAbs(name) {
			files = append(files, path.Clean(name))
		}
	}
	for _, variable := range []string{"OMPI_MCA_mca_base_param_files", "OMPI_MCA_mca_param_files"} {
		for name := range strings.FieldsFuncSeq(getenv(variable), func(r rune) bool { return r == ':' || r == ',' }) {
			add(name)
		}
	}
	if len(files) > 0 {
		return files
	}
	const system = "etc/openmpi-mca-params.conf"
	if home := getenv("HOME"); home != "" {
		add(home + "/.openmpi/mca-params.conf")
	}
	if prefix := getenv("OPAL_PREFIX"); prefix != "" {
		add(prefix + "/" + system)
	}
	const most = 32
	dirs := strings.SplitN(getenv("PATH"), ":", most+1)
	for _, dir := range dirs[:min(len(dirs), most)] {
		if strings.TrimRight(dir, "/") != "" {
			add(path.Dir(path.Clean(dir)) + "/" + system)
		}
	}
	add("/etc/openmpi/openmpi-mca-params.conf") // Debian's
	add("/opt/openmpi/" + system)
	return files
}
