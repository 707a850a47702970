package mpilib

import (
	"bytes"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/mpiup/mpiup/agent/mpilib/script"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/pattern"
)

// family is a kind of MPI library.
type family int

const (
	noFamily family = iota
	openMPI
	mpich
	mvapich
	intelMPI
	crayMPICH
	pmixClient // no MPI, but libpmix itself
	pmiClient  // no MPI, but libpmi, libpmi2 or PMI's words
)

var familyNames = map[family]string{openMPI: "Open MPI", mpich: "MPICH", mvapich: "MVAPICH", intelMPI: "Intel MPI",
	crayMPICH: "Cray MPICH", pmixClient: "a PMIx client", pmiClient: "a PMI client"}

// library is an MPI library that a program loads.
type library struct {
	family  family
	version string // "" unknown
	path    string // or its name, when it is not there
	pmix    bool   // it needs libpmix
	static  bool   // it is part of the program
}

// protocol is what a library speaks. MPICH and its kin speak PMI unless they were built with libpmix. Such builds
// (Ubuntu 24.04's) often know nothing else, and those that do take PMIx where they find it.
func (l library) protocol() job.Protocol {
	if l.family == openMPI || l.family == pmixClient || l.pmix {
		return job.PMIx
	}
	return job.PMI1
}

// String is the library as users know it: "Open MPI 4.1.4 (/usr/lib/libmpi.so.40)".
func (l library) String() string {
	name := familyNames[l.family]
	if l.version != "" {
		name += " " + l.version
	}
	if l.static {
		return name + " (part of " + l.path + ")"
	}
	return name + " (" + l.path + ")"
}

// Names of libraries that are an MPI's heart. Those for Fortran and C++ need one of these. Cray's
// have the compiler in the name, and Open MPI's profiling names are left out.
var (
	mpiLibrary  = pattern.Of(`^lib(mpi|mpich|mpi_abi|mpi_mt|mpi_dbg|mpi_dbg_mt|mpi_ilp64|mpich_[a-z0-9_]+|mpi_(cray|gnu|intel|nvidia|pgi|amd|aocc)[a-z0-9_]*|mpigf)\.so(\.|$)`)
	crayLibrary = pattern.Of(`^libmpi(ch)?_(cray|gnu|intel|nvidia|pgi|amd|aocc)`)
	// Libraries of the C runtime need no MPI.
	systemLibrary = pattern.Of(`^(ld-linux|ld-musl|lib(c|m|dl|pthread|rt|util|resolv|gcc_s|stdc\+\+|gfortran|quadmath|z|crypt|nsl|anl|atomic|gomp|numa|hwloc|ssl|crypto|expat|tinfo|readline|selinux|pcre2-8)[.-])`)
	pmixLibrary   = pattern.Of(`^libpmix\.so(\.|$)`)
	pmiLibrary    = pattern.Of(`^libpmi2?\.so(\.|$)`)
)

// byName is what a library that cannot be read is by its name. libmpi.so.12 is MPICH's ABI, which
// Intel MPI, MVAPICH and Cray share; libmpi.so.20 was Open MPI 2, libmpi.so.40 is 3 to 6.
func byName(name string) library {
	l := library{family: mpich, path: name + ", which is not there"}
	switch {
	case strings.HasPrefix(name, "libmpi.so.40"), strings.HasPrefix(name, "libmpi.so.20"):
		l.family = openMPI
	case crayLibrary().MatchString(name):
		l.family = crayMPICH
	}
	return l
}

// recognise says which MPI an opened library is. needs are the names of all libraries that it
// needs, itself or through others, as far as they were found.
func recognise(o *opened, needs []string) library {
	l := library{family: mpich, path: o.path, pmix: slices.ContainsFunc(needs, pmixLibrary().MatchString)}
	own := func(symbol string) bool { _, ok := o.Defines(symbol); return ok }
	switch {
	case own("ompi_mpi_comm_world"), slices.ContainsFunc(needs, func(n string) bool { return strings.HasPrefix(n, "libopen-pal.") }):
		l.family, l.version = openMPI, o.Constant("ompi_version_string")
	case own("I_MPI_Check_image_status"):
		l.family = intelMPI
	case crayLibrary().MatchString(path.Base(o.path)), crayLibrary().MatchString(o.Name):
		l.family = crayMPICH
	default:
		l.version = o.Constant("MPII_Version_string")
	}
	l.complete(o)
	if len(l.version) > 40 || strings.ContainsFunc(l.version, func(r rune) bool { return r <= ' ' || r > '~' }) {
		l.version = ""
	}
	return l
}

// A version in a piece of a library's constants; "" none.
func (f family) versionIn(piece []byte) string {
	switch f {
	case openMPI:
		return after(piece, "MCA component version")
	case crayMPICH:
		return after(piece, "CRAY MPICH version")
	case intelMPI:
		return lone(piece, func(v string) bool { return len(v) > 5 && v[:2] == "20" && v[4] == '.' })
	case mpich: // hwloc's and others' versions are there too, below 3
		return lone(piece, func(v string) bool { return v[0] >= '3' && v[1] == '.' })
	}
	return ""
}

// after is the version that follows some text: "MCA component version 5.0.7".
func after(piece []byte, text string) string {
	for {
		_, rest, ok := bytes.Cut(piece, []byte(text))
		if !ok {
			return ""
		}
		piece = rest
		v, _, _ := bytes.Cut(rest[:min(len(rest), Overlap/2)], []byte{0})
		if m := leadingVersion().FindSubmatch(v); m != nil {
			return string(m[1])
		}
	}
}

var (
	leadingVersion = pattern.Of(`^ *(\d+\.\d+\.\d+[a-z0-9]*)`)
	wholeVersion   = pattern.Of(`^\d+\.\d+(\.\d+)?(a|b|rc)?\d*$`)
)

// lone is the first version that is a text of its own and fits.
func lone(piece []byte, fits func(v string) bool) string {
	_, piece, _ = bytes.Cut(piece, []byte{0}) // its beginning may be in an earlier piece
	for {
		text, rest, ok := bytes.Cut(piece, []byte{0})
		if !ok {
			return ""
		}
		piece = rest
		if len(text) >= 5 && len(text) < 16 && text[0]-'0' <= 9 && wholeVersion().Match(text) && fits(string(text)) {
			return string(text)
		}
	}
}

// complete reads the version, and tells MPICH's relatives apart, by the texts in a library.
func (l *library) complete(o *opened) {
	if l.settled() {
		return
	}
	o.Constants(func(piece []byte) bool {
		if l.family == mpich && bytes.Contains(piece, []byte("MVAPICH")) {
			l.family = mvapich
		}
		if l.version == "" {
			l.version = l.family.versionIn(piece)
		}
		return !l.settled()
	})
}

// settled says that the texts would tell nothing new: MVAPICH's releases are 2.x.y, 3.0 and 4.0, those
// of MPICH with its names 3.1 and later, with three numbers mostly.
func (l *library) settled() bool {
	return l.version != "" && (l.family != mpich || l.version[0] > '2' && strings.Count(l.version, ".") > 1)
}

// marks are texts that a program with an MPI library in it must hold, the telling ones first.
var marks = []struct {
	text   string
	family family
}{{"Intel(R) MPI Library", intelMPI}, {"MVAPICH", mvapich}, {"MCA component version", openMPI}, {"MPIR_CVAR_", mpich},
	{"PMIX_NAMESPACE", pmixClient}, {"PMI_FD", pmiClient}}

// within recognises an MPI library that was linked into a program, or a program that speaks PMI
// itself, by such texts.
func within(o *opened) (l library, ok bool) {
	best := len(marks)
	version := ""
	o.Constants(func(piece []byte) bool {
		for i, m := range marks[:best] {
			if bytes.Contains(piece, []byte(m.text)) {
				best = i
				break
			}
		}
		if version == "" {
			version = openMPI.versionIn(piece)
		}
		return true
	})
	if best == len(marks) {
		return library{}, false
	}
	l = library{family: marks[best].family, path: o.path, static: true}
	if l.family == openMPI {
		l.version = version
	}
	return l, true
}

// Installed is an MPI library of an image.
type Installed struct {
	Name     string // "Open MPI 4.1.4 (/usr/lib/libmpi.so.40)"
	Protocol string // that its ranks speak
	CUDA     string // the file by which it knows CUDA; "": no sign of any
}

// libraryNames are what MPI libraries' files are called.
var libraryNames = []string{"libmpi.so.40", "libmpi.so.20", "libmpi.so.12", "libmpich.so.12"}

// Installed looks for MPI libraries where they usually are: the loader's cache and directories, LD_LIBRARY_PATH, what variables point
// at, and below /opt and /usr/local. Each file is listed once.
func (m *Memory) Installed(env []string) []Installed {
	return answered(func() (list []Installed) {
		k := &look{files: newFiles(m.fsys, time.Now().Add(lookDeadline))}
		asked := &asked{vars: parseEnv(env), seen: map[string]string{}}
		e, seen := script.EnvOf(asked.lookup), map[string]bool{}
		for _, file := range candidates(k, e) {
			real := k.files.real(file)
			if seen[real] || !k.files.stat(file).regular() {
				continue
			}
			seen[real] = true
			o, err := k.files.openObject(file)
			if err != nil {
				continue
			}
			d := newLoader(k, o, e, "/")
			needs := d.needs(o, nil)
			l := recognise(o, needs)
			o.close()
			list = append(list, Installed{Name: printable(l.String()), Protocol: l.protocol().String(), CUDA: printable(cudaSign(k, path.Dir(real), needs))})
		}
		return list
	}, nil)
}

// candidates are files that may be MPI libraries, in the order of what is more likely to be loaded.
func candidates(k *look, e script.Env) (files []string) {
	dirs := strings.FieldsFunc(e.Get("LD_LIBRARY_PATH"), func(r rune) bool { return r == ':' || r == ';' })
	for _, h := range homes {
		if root := e.Get(h.name); root != "" {
			dirs = append(dirs, path.Join("/", root, "lib"), path.Join("/", root, "lib64"), path.Join("/", root, "lib/release"))
		}
	}
	for _, name := range libraryNames {
		files = append(files, k.ldCache().find(name)...)
	}
	dirs = append(dirs, "/usr/local/lib", "/usr/lib64", "/usr/lib", "/lib64", "/usr/lib64/openmpi/lib", "/usr/lib64/mpich/lib")
	for _, m := range k.files.match("/usr/lib", "*-linux-gnu*") {
		dirs = append(dirs, m, m+"/openmpi/lib")
	}
	for _, top := range []string{"/opt", "/usr/local"} {
		for _, one := range k.files.match(top, "*") {
			dirs = append(dirs, one+"/lib", one+"/lib64", one+"/ompi/lib", one+"/openmpi/lib", one+"/mpich/lib", one+"/oneapi/mpi/latest/lib")
		}
	}
	for _, dir := range dirs {
		for _, name := range libraryNames {
			files = append(files, path.Join("/", dir, name))
		}
	}
	return files
}

// cudaSign is the sign that an MPI library in a directory can take GPUs' memory: it needs CUDA's library, Open MPI 4's or 5's part for it
// is there, or UCX's is.
func cudaSign(k *look, dir string, needs []string) string {
	for _, n := range needs {
		if strings.HasPrefix(n, "libcudart.so") || strings.HasPrefix(n, "libcuda.so") {
			return n
		}
	}
	places := []string{dir + "/libmca_common_cuda.so*", dir + "/openmpi/mca_accelerator_cuda.so", dir + "/openmpi3/mca_accelerator_cuda.so"}
	for _, ucp := range k.ldCache().find("libucp.so.0") {
		places = append(places, path.Join(path.Dir(ucp), "ucx/libuct_cuda.so*"))
	}
	places = append(places, path.Join(dir, "../../ucx/lib/ucx/libuct_cuda.so*")) // HPC-X
	for _, p := range places {
		if found := k.files.match(path.Dir(p), path.Base(p)); len(found) > 0 {
			return found[0]
		}
	}
	return ""
}
