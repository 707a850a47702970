// Package image looks at the image that it runs in, as a job's container: which MPI library and which programs by its names a
// rank would get, and what is left over or cannot be written. It needs no cluster, no agent and no second host.
//
//	files of the image ─┐
//	environment, PATH ──┼─▶ Check ──▶ findings (agent/checkup) and facts ──▶ mpiup check-image
//	this process ───────┘
//
// Files are read, and nothing is executed. Reads are bounded, by agent/mpilib's limits where libraries are followed. What may be
// written is asked of the kernel for this process's user: a build step of root says little of another user's pod, and Check
// says as whom it looked.
//
// It keeps nothing: Check may be called by several goroutines at the same time. What a program opens by name as it runs is not followed.
package image

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/agent/checkup"
	"github.com/mpiup/mpiup/agent/host"
	"github.com/mpiup/mpiup/agent/mpilib"
	"github.com/mpiup/mpiup/agent/reap/program"
	"github.com/mpiup/mpiup/docs"
)

// Config is the image.
type Config struct {
	Files   fs.FS // its root
	Env     []string
	Dir     string   // where relative programs are found
	Program []string // what ranks will run; nil: not said
	UID     int
	Version string   // of this mpiup
	Names   []string // by which mpiup stands in for other programs
	Temp    string   // where an agent keeps its record
	Watch   error    // why no rank can be watched (--watch-ranks); nil: they can

	Ours  func(path string) bool  // a program is mpiup
	Write func(dir string) error  // why nothing can be written to a directory; nil: something can
	User  func(uid int) string    // its name; "": it has none
	Size  func(dir string) uint64 // of its file system, bytes; 0: unknown
}

// Facts are what was found, for programs to read.
type Facts struct {
	Version    string            `json:"version"`
	UID        int               `json:"uid"`
	CUDA       []string          `json:"cuda,omitempty"`     // MPI libraries that can take GPUs' memory
	Libraries  []string          `json:"mpi_libraries"`      // "Open MPI 4.1.4 (/usr/lib/libmpi.so.40)"
	Library    string            `json:"library,omitempty"`  // that the program loads
	Protocol   string            `json:"protocol,omitempty"` // that its ranks get
	NCCL       string            `json:"nccl,omitempty"`
	Missing    []string          `json:"missing,omitempty"` // libraries
	Names      map[string]string `json:"names"`             // the first on PATH of each name that mpiup goes by
	Frameworks []string          `json:"frameworks,omitempty"`
}

// image is a look at one.
type image struct {
	Config
	libs  *mpilib.Memory
	found Facts
	list  []checkup.Finding

	taken  int // bytes of files
	listed int // entries of directories
}

// Check looks at all of it. Findings are in a fixed order.
func Check(c Config) (Facts, []checkup.Finding) {
	i := &image{Config: c, libs: mpilib.NewMemory(c.Files), found: Facts{Version: c.Version, UID: c.UID, Libraries: []string{}, Names: map[string]string{}}}
	i.add("mpiup", checkup.Pass, c.Version, "")
	i.libraries()
	if len(c.Program) > 0 {
		i.program()
	}
	i.names()
	i.watchLibrary()
	i.leftovers()
	i.user()
	i.writable()
	i.frameworks()
	return i.found, i.list
}

// watchLibrary looks whether what finds slow ranks came with mpiup.
func (i *image) watchLibrary() {
	if i.Watch != nil {
		i.add("watch library", checkup.Warn, "--watch-ranks finds nobody: "+i.Watch.Error(), checkup.WatchFix)
		return
	}
	i.add("watch library", checkup.Pass, "there, for --watch-ranks", "")
}

func (i *image) add(name string, v checkup.Verdict, text, fix string) {
	i.list = append(i.list, checkup.Finding{Name: name, Verdict: v, Text: text, Fix: fix})
}

func (i *image) env(name string) string {
	value, _ := host.Lookup(name, i.Env)
	return value
}

// stat is a file of the image, links followed; nil where there is none.
func (i *image) stat(name string) fs.FileInfo {
	info, err := fs.Stat(i.Files, inFS(name))
	if err != nil {
		return nil
	}
	return info
}

// inFS is a path as fs.FS has it.
func inFS(name string) string {
	if name = strings.TrimPrefix(path.Clean("/"+name), "/"); name == "" {
		return "."
	}
	return name
}

func (i *image) libraries() {
	for _, l := range i.libs.Installed(i.Env) {
		text := l.Name + ", no sign of CUDA in it"
		if l.CUDA != "" {
			i.found.CUDA = append(i.found.CUDA, l.Name)
			text = l.Name + ", with CUDA (" + l.CUDA + ")"
		}
		i.found.Libraries = append(i.found.Libraries, l.Name)
		i.add("MPI library", checkup.Pass, text+"; its ranks speak "+l.Protocol, "")
	}
	if len(i.found.Libraries) == 0 {
		i.add("MPI library", checkup.Pass, "none where libraries usually are: programs without MPI, or with a static one", "")
	}
}

// head is the beginning of a file that may be executed.
func (i *image) head(name string) ([]byte, error) {
	info, err := fs.Stat(i.Files, inFS(name))
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0:
		return nil, fs.ErrPermission
	}
	head, err := i.beginning(name, program.HeadBytes)
	if err != nil {
		return nil, errUnread
	}
	return head, nil
}

// maxTaken bounds the bytes of all files that one look takes: an image may have very many small ones, or one by many names.
const maxTaken = 32 << 20

var errTooMuch = errors.New("a look at an image reads no more than 32 MiB of its files, and this one has more")

// beginning is the first bytes of a file, so many at most; an error when all that was read is too much.
func (i *image) beginning(name string, most int64) ([]byte, error) {
	if i.taken >= maxTaken {
		return nil, errTooMuch
	}
	f, err := i.Files.Open(inFS(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most))
	i.taken += len(text)
	return text, err
}

var errUnread = errors.New("it may be executed, and cannot be read")

// program looks at what ranks will run.
func (i *image) program() {
	const name = "program"
	q := mpilib.Query{Argv: i.Program, Env: i.Env, Dir: i.Dir}
	at := len(i.list)
	last, fit := i.follow(q)
	if !fit {
		return
	}
	exe, missing, whole := i.libs.Missing(last)
	choice := i.libs.Look(q)
	i.found.Library, i.found.Protocol, i.found.NCCL = choice.Library, choice.Protocol.String(), choice.NCCL
	text := fmt.Sprintf("ranks get %v, since %s", choice.Protocol, choice.Why)
	if choice.NCCL != "" {
		text += "; NCCL " + choice.NCCL
	}
	i.list = slices.Insert(i.list, at, checkup.Finding{Name: name, Verdict: checkup.Pass, Text: text})
	for _, row := range append(docs.KnownOf(choice.Library), docs.KnownOf("NCCL "+choice.NCCL)...) {
		level := checkup.Pass // where it depends on what nobody knows yet
		if row.Condition == "" {
			level = checkup.Warn
		}
		i.add("known faults", level, row.Sentence(), "")
	}
	var driver []string
	for _, m := range missing {
		if slices.ContainsFunc(ofDriver, func(lib string) bool { return strings.HasPrefix(m.Name, lib) }) {
			driver = append(driver, m.Name)
			continue
		}
		i.found.Missing = append(i.found.Missing, m.Name)
		i.add("libraries", checkup.Fail, fmt.Sprintf("%.100s is not found; %.200s needs it", m.Name, m.By), "install its package, or "+
			"name its directory in LD_LIBRARY_PATH or /etc/ld.so.conf.d (and run ldconfig)")
	}
	if len(driver) > 0 {
		i.add("libraries", checkup.Pass, fmt.Sprintf("%.200s: of the node's driver, which its container runtime brings", strings.Join(driver, ", ")), "")
	}
	switch {
	case !whole:
		i.add("libraries", checkup.Unknown, "not all that "+exe+" needs were looked at: they are too many, or the file system is too slow", "")
	case len(i.found.Missing) == 0:
		i.add("libraries", checkup.Pass, "all that "+exe+" needs are here", "")
	}
}

// ofDriver are libraries that an image should not have: they belong to the node's driver.
var ofDriver = []string{"libcuda.so.", "libnvidia-", "libnvcuvid.so."}
