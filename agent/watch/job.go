package watch

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/agent/host"
	"github.com/mpiup/mpiup/agent/look"
	"github.com/mpiup/mpiup/agent/mpilib"
	"github.com/mpiup/mpiup/agent/reap/proctree"
	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/pmi/pmix/leftover"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// LibraryName is the library's file, beside mpiup.
const LibraryName = "libmpiup-watch.so"

// A Job is what is watched of one job's ranks on this host. Its methods may be called by several goroutines.
type Job struct {
	dir, library string
	shared       string // begins the names of pages in memory
	number       uint32
	notice       Notice
	left         map[uint32]bool // programs whose ranks are not watched

	mu    sync.Mutex
	ranks map[uint32]*watched // guarded by mu
	read  Copies              // of the page that is read, guarded by mu
}

// watched belongs to whoever holds the job's mu.
type watched struct {
	page *Page
	feed Feed
	pace *Cadence // nil: its rank has not called NCCL
	over bool     // its rank has ended, and was told of
	main int      // the process that is in MPI for its rank, as far as it is known and counts as the page's owner does
	pass pass
}

// pass is a call that its rank does not measure: so many there were, and since when it has been seen in this one.
type pass struct {
	number uint64
	since  time.Duration
}

// Notice tells the user something, once.
type Notice func(warning bool, format string, args ...any)

// Program is one whose ranks may be watched.
type Program struct {
	Name  string
	First string // it is linked with this runtime of ASan, which must be loaded before any other library; "": none
}

// NewJob watches the ranks of a session's job with that library, by pages in /dev/shm, else in the session's directory: on a disk that
// stands still the kernel lets a rank wait that writes to a page. Where nobody can be watched it says so once, and is nil.
func NewJob(h *host.Host, session string, number uint32, library string, programs []Program, notice Notice) *Job {
	left := map[uint32]bool{} // programs of which nobody is watched
	for i, p := range programs {
		if p.First != "" {
			left[uint32(i)] = true
			notice(true, "--watch-ranks: ranks of %s are not watched: what it runs is linked with %s, which must be loaded before any other library", p.Name, p.First)
		}
	}
	dir, _ := h.SessionDir(session)
	j, err := newJob(dir, number, library)
	if err != nil {
		notice(true, "--watch-ranks: nobody is watched here: %v", err)
		return nil
	}
	j.left, j.notice, j.shared = left, notice, filepath.Join(leftover.Shm, leftover.Claimed(fmt.Sprintf("watch.%s.%d.", session, number)))
	return j
}

func newJob(dir string, number uint32, library string) (*Job, error) {
	switch {
	case dir == "":
		return nil, errors.New("no directory can be written to: give the agent a writable TMPDIR, such as an emptyDir volume")
	case strings.ContainsAny(library, ": "):
		return nil, fmt.Errorf("%s: LD_PRELOAD cannot name a file with a space or a colon in its path; install mpiup elsewhere", library)
	}
	if err := CheckLibrary(library); err != nil {
		return nil, err
	}
	dir = filepath.Join(dir, fmt.Sprint("waits-", number))
	return &Job{dir: dir, library: library, number: number, ranks: map[uint32]*watched{}}, os.MkdirAll(dir, 0o700)
}

// Environment adds to a rank's environment what puts the library before its MPI. A rank that it does not suit keeps its own, and name is
// told of. app is its program's number and program the file that it executes; a script is watched by what it runs. A nil Job adds nothing.
func (j *Job) Environment(id, app uint32, name fmt.Stringer, program string, env []string) []string {
	if j == nil || j.left[app] {
		return env
	}
	with, err := j.environment(id, program, env)
	if err != nil {
		j.notice(true, "--watch-ranks: %s is not watched: %v", name, err)
		return env
	}
	return with
}

func (j *Job) environment(id uint32, program string, env []string) ([]string, error) {
	type read struct {
		machine elf.Machine
		loaded  bool
	}
	is, answered := awake.Call(programTime, func() (r read) {
		r.machine, r.loaded = programOf(program)
		return r
	})
	machine, loaded := is.machine, is.loaded
	switch {
	case !answered:
		return nil, fmt.Errorf("the file system of %s does not answer", program)
	case machine != elf.EM_NONE && machine != ownMachine():
		return nil, fmt.Errorf("%s is a program for %s", program, machine)
	case machine != elf.EM_NONE && !loaded:
		return nil, fmt.Errorf("%s is linked statically: no library can be put before its MPI", program)
	}
	env = slices.Clone(env)
	preload := slices.IndexFunc(env, func(kv string) bool { return strings.HasPrefix(kv, preloadVariable) })
	if preload >= 0 && env[preload] != preloadVariable {
		value := strings.TrimPrefix(env[preload], preloadVariable)
		other, answered := awake.Call(programTime, func() string { return beforeMPI(value) })
		if !answered {
			return nil, fmt.Errorf("the file system of a library of LD_PRELOAD (%s) does not answer", value)
		}
		if other != "" {
			return nil, fmt.Errorf("LD_PRELOAD has %s, which stands before MPI itself", other)
		}
		env[preload] += ":" + j.library // where it stands: the library takes its own name off again
	} else {
		env = append(slices.DeleteFunc(env, func(kv string) bool { return kv == preloadVariable }), preloadVariable+j.library)
	}
	path := j.shared + fmt.Sprint(id)
	page, err := Create(path)
	if err != nil {
		path = filepath.Join(j.dir, fmt.Sprint(id))
		page, err = Create(path)
	}
	if err != nil {
		return nil, err
	}
	j.mu.Lock()
	j.ranks[id] = &watched{page: page}
	j.mu.Unlock()
	return append(env, Variable+"="+path), nil
}

const preloadVariable = "LD_PRELOAD="

func ownMachine() elf.Machine {
	return map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]
}

// CheckLibrary opens the library as each rank's loader will. One that cannot be read or mapped would cost each rank a line of the loader's, and
// one that was cut, as by a disk that was full, its life: the loader maps what the file does not have. No path is no library beside mpiup.
func CheckLibrary(path string) error {
	if path == "" {
		return fmt.Errorf("there is no %s beside mpiup: put that of the mpiup image there (mpiup install does)", LibraryName)
	}
	const again = "put that of the mpiup image there again (mpiup install does)"
	f, err := bounded.Open(path)
	if err != nil {
		return fmt.Errorf("%w: let the ranks' user read it, or %s", err, again)
	}
	defer f.Close()
	about, err := f.Stat()
	if err != nil {
		return err
	}
	e, err := elf.NewFile(f)
	switch {
	case err != nil:
		return fmt.Errorf("%s is no library, or was cut: %w; %s", path, err, again)
	case e.Machine != ownMachine():
		return fmt.Errorf("%s is a library for %s; %s", path, e.Machine, again)
	}
	for _, p := range e.Progs {
		if p.Type == elf.PT_LOAD && p.Off+p.Filesz > uint64(about.Size()) { //nolint:gosec // a size is not below 0
			return fmt.Errorf("%s was cut to %d bytes; %s", path, about.Size(), again)
		}
	}
	mapped, err := unix.Mmap(int(f.Fd()), 0, 1, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE) //nolint:gosec // a descriptor is a small number
	if err != nil {
		return fmt.Errorf("%s cannot be loaded (%w): put it where programs may be executed from, not onto a file system that is mounted noexec", path, err)
	}
	return unix.Munmap(mapped)
}

// look reads all ranks' pages.
func (j *Job) look(leaders map[uint32]look.Leader) (news []job.Waits) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for id, w := range j.ranks {
		if !w.over {
			w.claim(leaders[id])
			w.learnMain(leaders[id].Main)
			news = append(news, w.news(id, &j.read))
		}
	}
	return news
}

// wants says that a rank's process has a page that was not claimed yet.
func (j *Job) wants() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, w := range j.ranks {
		if !w.over && w.page.Wants() {
			return true
		}
	}
	return false
}

// claim opens the pages that ranks' processes have by now.
func (j *Job) claim(leaders map[uint32]look.Leader) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for id, w := range j.ranks {
		w.claim(leaders[id])
	}
}

// claim opens the rank's page, if it is of the rank's first process, of the one in MPI, or of one that descends from them.
func (w *watched) claim(of look.Leader) {
	w.page.Claim(func(owner int) (pid int) {
		switch {
		case descends(owner, of):
			return owner
		case of.Main != 0 && slices.Equal(namesOf(of.Main), []string{strconv.Itoa(of.Main), strconv.Itoa(owner)}):
			return of.Main
		}
		return 0
	})
}

// descends says that a process is one of a rank.
func descends(pid int, of look.Leader) bool {
	const deepest = 64
	proc := proctree.Proc{Root: "/proc"}
	for range deepest {
		if pid == of.PID || pid == of.Main {
			return pid != 0
		}
		s, err := proc.Stat(pid)
		if err != nil || s.PPID <= 1 {
			return false
		}
		pid = s.PPID
	}
	return false
}

// namesOf are a process's numbers, in this PID namespace and in those below it down to its own.
func namesOf(pid int) []string {
	text, err := proctree.ReadSome(fmt.Sprintf("/proc/%d/status", pid), maxStatus)
	list, ok := sysfs.Field(string(text), "NSpid:")
	if err != nil || !ok {
		return nil
	}
	return strings.Fields(list)
}

// learnMain notes the process that is in MPI for the rank. One in a PID namespace of its own counts its processes
// otherwise than this one, and its page is taken for what it is.
func (w *watched) learnMain(pid int) {
	text, err := proctree.ReadSome(fmt.Sprintf("/proc/%d/status", pid), maxStatus)
	if pid == 0 || err != nil { // it has ended: what was known of it counts
		return
	}
	w.main = 0
	if list, ok := sysfs.Field(string(text), "NSpid:"); ok && strings.TrimSpace(list) == strconv.Itoa(pid) {
		w.main = pid
	}
}

// sample reads the page. One that its rank has cut tells of nothing, and so does one of another process than the one
// that is in MPI for the rank: of a program that ran there before, or of what the rank has started.
func (w *watched) sample(id uint32, read *Copies) job.Waits {
	s, err := w.page.Read(read)
	another := w.main != 0 && s.Owner != 0 && s.Owner != w.main
	if err != nil || another {
		s = Sample{}
	}
	now := monotonic()
	w.pass.see(&s, now)
	if s.Newest != 0 && w.pace == nil {
		w.pace = &Cadence{}
	}
	if w.pace != nil {
		w.pace.Take(s.Newest, s.Bins, now)
		s.Step, s.StepCalls = w.pace.Period()
	}
	s.ID = int(id)
	return s.Waits
}

// see gives a call that is not measured the time since which it has been seen.
func (p *pass) see(s *Sample, now time.Duration) {
	switch {
	case s.Call == "" || s.Called != 0:
		*p = pass{}
		return
	case p.since == 0 || p.number != s.Passes:
		*p = pass{s.Passes, now}
	}
	s.Called, s.Elsewhere = p.since, p.since
}

// news has those points that were not told yet.
func (w *watched) news(id uint32, read *Copies) job.Waits {
	r := w.sample(id, read)
	r.Points = w.feed.Next(r)
	return r
}

// Close ends watching, and removes the pages; what cannot be removed goes with the session's directory. A nil Job has none.
func (j *Job) Close() {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for id, w := range j.ranks {
		os.Remove(j.shared + fmt.Sprint(id))
		_ = w.page.Close() // it was read only
	}
	clear(j.ranks)
	os.RemoveAll(j.dir)
}

// programTime is how long a program's or a library's file may take to be read.
const programTime = 5 * time.Second

// programOf is what a program runs on, and whether it has a loader, which puts libraries before it. EM_NONE is for a script, and for what nobody
// can read. A 32-bit program counts as EM_386.
func programOf(program string) (machine elf.Machine, loaded bool) {
	f, err := bounded.Open(program)
	if err != nil {
		return elf.EM_NONE, false
	}
	defer f.Close()
	head := make([]byte, elf.EI_CLASS+1)
	if _, err := f.ReadAt(head, 0); err != nil || string(head[:4]) != elf.ELFMAG {
		return elf.EM_NONE, false
	}
	if elf.Class(head[elf.EI_CLASS]) != elf.ELFCLASS64 {
		return elf.EM_386, true
	}
	o, err := mpilib.Read(f)
	if err != nil {
		return elf.EM_NONE, false
	}
	return o.Machine, o.Interp != ""
}

// beforeMPI names the first library of an LD_PRELOAD that has an MPI_Init of its own: a tool that measures, which may hand calls on under
// names that this one does not see.
func beforeMPI(preload string) string {
	for _, name := range strings.FieldsFunc(preload, func(r rune) bool { return r == ' ' || r == ':' }) {
		f, err := bounded.Open(name)
		if err != nil {
			continue // the loader says so
		}
		o, err := mpilib.Read(f)
		defines := false
		if err == nil {
			_, defines = o.Defines("MPI_Init")
		}
		if err := f.Close(); err == nil && defines {
			return name
		}
	}
	return ""
}
