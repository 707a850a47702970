package ranks

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/mpiup/mpiup/agent/host"
	"github.com/mpiup/mpiup/agent/incoming"
	"github.com/mpiup/mpiup/agent/look"
	"github.com/mpiup/mpiup/agent/outfit"
	"github.com/mpiup/mpiup/agent/reap/guard"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/frameworks"
	"google.golang.org/protobuf/proto"
)

// newCopies is the files that will come for a job, nil for none.
func (st *Job) newCopies() *incoming.Set {
	l := st.Launch.Launch
	if len(l.Files) == 0 {
		return nil
	}
	return incoming.New(incoming.Config{Files: FilesOf(l), Window: apiv1.CopyWindow, Dir: st.filesDir, Wrote: func(n int) {
		st.send((&apiv1.CopyCredit{Job: l.Job.Number, Bytes: uint32(n)}).Frame())
	}})
}

// filesName is the directory of copied files in a session's.
const filesName = "files"

// filesDir makes the directory of the session's files.
func (st *Job) filesDir() (string, error) {
	dir, _ := st.s.Host.SessionDir(st.s.ID)
	if dir == "" {
		return "", fmt.Errorf("%s cannot be written to: give the agent a writable TMPDIR, such as an emptyDir volume", st.s.Host.SessionsDir())
	}
	dir = filepath.Join(dir, filesName)
	return dir, os.MkdirAll(dir, 0o700)
}

// CopyData takes the next bytes of the job's files.
func (st *Job) CopyData(data []byte) error {
	if st.copies == nil {
		return errors.New("bytes of files for a job which has none")
	}
	return st.copies.Write(data)
}

// removeTime is how long a session's end waits for its files to go, of which there may be 8 GiB. What takes longer goes on.
const removeTime = 5 * time.Second

// RemoveFiles removes what was copied for a job that has ended, and its ranks' dumps. What a file system holds up it does not wait for.
func (st *Job) RemoveFiles() {
	_, answered := awake.Call(removeTime, func() struct{} {
		st.removeFiles()
		return struct{}{}
	})
	if !answered {
		st.s.Log.Warn("a job's files are not removed yet: their file system does not answer, or is slow", "job", st.Launch.Job.Number, "dir", st.s.Host.SessionsDir())
	}
}

func (st *Job) removeFiles() {
	st.Waits.Close()
	st.trails.Close()
	if st.flight != nil {
		st.flight.Remove()
	}
	if st.copies != nil {
		st.copies.Remove()
	}
	switch {
	case st.files != "":
		st.s.Host.RemoveDirs(guard.SessionDir(st.s.Host.SessionsDir(), st.s.ID))
	case st.flight != nil || st.Waits != nil || st.trails != nil:
		st.s.Host.RemoveEmpty(st.s.ID)
	}
}

// receive waits for the job's files, and lets its programs refer to them.
func (st *Job) receive() (err error) {
	l := st.Launch.Launch
	if st.copies != nil {
		st.s.Audit(l, true)
		err = st.copies.Run(st.may)
	}
	needsDir := slices.ContainsFunc(l.Apps, func(a *apiv1.App) bool { return a.SessionDir })
	if st.copies != nil {
		st.files = st.copies.Dir()
	}
	if err == nil && needsDir && st.files == "" {
		st.files, err = st.filesDir()
	}
	if err != nil {
		return err
	}
	st.apps = slices.Clone(l.Apps)
	for i, a := range st.apps {
		if a.Copied == 0 && !a.SessionDir {
			continue
		}
		b := proto.CloneOf(a)
		if a.Copied > 0 {
			b.Argv[0] = st.copies.Path(int(a.Copied) - 1)
		}
		if a.SessionDir && !a.WdirExplicit {
			b.Wdir, b.WdirExplicit = st.files, true
		}
		st.apps[i] = b
	}
	return nil
}

// FilesOf is what a Launch announces to send.
func FilesOf(l *apiv1.Launch) []incoming.File {
	files := make([]incoming.File, len(l.Files))
	for i, f := range l.Files {
		files[i] = incoming.File{Name: f.Name, Mode: fs.FileMode(f.Mode), Size: int64(min(f.Size, incoming.MaxBytes+1))}
	}
	return files
}

// checkpoints makes the directory where ranks save, and sees whether they can. failed is nil where they can, or save nowhere.
func (st *Job) checkpoints() (failed *apiv1.StartFailed) {
	l := st.Launch.Launch
	dir := l.Job.CheckpointDir
	if dir == "" || l.Exec != nil || len(l.Procs) == 0 || l.Job.Explain > 0 {
		return nil
	}
	passing, err := host.Writable(dir)
	switch {
	case err != nil:
		errno := syscall.ETIMEDOUT // of a file system that does not answer
		errors.As(err, &errno)
		return &apiv1.StartFailed{Rank: st.first(), Phase: apiv1.StartPhase_START_DIR, Path: dir, Errno: int32(errno),
			Text: fmt.Sprintf("--checkpoint-dir: %v; mount a volume that user %d may write to, at the same path on all hosts", err, os.Getuid())}
	case passing != "":
		st.s.Notice(true, "--checkpoint-dir %s is on %s: what ranks save there does not outlive this container or machine; choose a place that does", dir, passing)
	}
	return nil
}

// newFlight makes the place of torch's flight recorders, if a program here has one and the launcher wants it; nil: neither, or there
// is no directory for it.
func newFlight(st *Job) *look.Recorder {
	l := st.Launch
	torch := slices.ContainsFunc(st.programs, func(p outfit.Program) bool { return p.Torch != "" })
	set := frameworks.Set(l.Job.GetMeeting().GetFrameworks())
	if !torch || set&frameworks.Torch == 0 || l.Job.Flight == apiv1.FlightUse_FLIGHT_NONE || l.Exec != nil {
		return nil
	}
	dir, _ := st.s.Host.SessionDir(st.s.ID)
	if dir == "" {
		st.s.Log.Info("torch's flight recorder is left as it is, since no directory can be written to", "dir", st.s.Host.SessionsDir())
		return nil
	}
	most := int(min(uint64(l.Job.Size)*256, 1<<16)) // ranks that torch may count, as launchers take it (launcher/hang.MaxTorch): one may start more
	f, err := look.NewRecorder(filepath.Join(dir, fmt.Sprint("flight-", l.Job.Number)), most)
	if err != nil {
		st.s.Log.Info("torch's flight recorder is left as it is", "cause", err)
		return nil
	}
	return f
}

// recorder is what ranks are told of it.
func (st *Job) recorder() frameworks.Recorder {
	if st.flight == nil || st.Launch.Job.Explain > 0 {
		return frameworks.Recorder{}
	}
	return frameworks.Recorder{Prefix: st.flight.Prefix(), Pipe: st.flight.Pipe()}
}

// dumpsAtEnd is how long the news of a process's end waits at most for dumps that are read.
const dumpsAtEnd = time.Second

// sendDumps tells the launcher of dumps that are new.
func (st *Job) sendDumps() {
	if st.flight != nil {
		ctx, cancel := awake.Within(st.ctx, dumpsAtEnd)
		defer cancel()
		st.flight.News(ctx, func(r look.Record) { st.sendRecord(r) })
	}
}

// AskDumps asks the job's processes for dumps, and tells the launcher of those that come until ctx ends. It returns what they say. A job
// without a recorder has none.
func (st *Job) AskDumps(ctx context.Context) (told []*apiv1.Flight) {
	if st.flight != nil {
		st.flight.Ask(ctx, func(r look.Record) { told = append(told, st.sendRecord(r)) })
	}
	return told
}

// maxDump bounds a dump that goes to the launcher.
const maxDump = 1 << 20

// sendRecord tells the launcher of a record, and returns what it says.
func (st *Job) sendRecord(r look.Record) *apiv1.Flight {
	m := st.told(r)
	if st.Launch.Job.Flight == apiv1.FlightUse_FLIGHT_DUMP {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(r.Dump) // to memory
		_ = z.Close()
		if b.Len() <= maxDump {
			m.Dump = b.Bytes()
		}
	}
	st.send(m.Frame())
	return st.told(r) // a launcher in this process has the other
}

// told is what a process's flight recorder has, without the dump itself.
func (st *Job) told(r look.Record) *apiv1.Flight {
	m := &apiv1.Flight{Job: st.Launch.Job.Number, Rank: uint32(r.Rank)}
	for _, g := range r.Groups {
		group := &apiv1.FlightGroup{Name: g.Name, What: g.What, Ranks: g.Ranks.String(), Last: g.Last}
		for _, o := range g.Ops {
			group.Ops = append(group.Ops, &apiv1.FlightOp{Seq: o.Seq, Name: o.Name, Shape: o.Shape, Done: o.Done, Where: o.Where})
		}
		for _, c := range g.Calls {
			group.Calls = append(group.Calls, &apiv1.FlightCall{Seq: c.Seq, AtNs: c.At})
		}
		m.Groups = append(m.Groups, group)
	}
	return m
}

// RAS is where NCCL's RAS service listens on this host, if a program of the job has NCCL.
func (st *Job) RAS() (at netip.AddrPort, ok bool) {
	i := slices.IndexFunc(st.programs, func(p outfit.Program) bool { return p.NCCL != "" || p.Torch != "" })
	if i < 0 || len(st.Launch.Procs) == 0 {
		return at, false
	}
	variable, set := host.Lookup("NCCL_RAS_ADDR", st.programs[i].App.Env)
	if !set {
		variable, _ = host.Lookup("NCCL_RAS_ADDR", st.s.Env)
	}
	return look.RASAddress(variable)
}
