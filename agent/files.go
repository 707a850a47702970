package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/mpiup/mpiup/agent/copies"
	"github.com/mpiup/mpiup/agent/reap/guard"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

// filesOf is what a Launch announces to send.
func filesOf(l *apiv1.Launch) []copies.File {
	files := make([]copies.File, len(l.Files))
	for i, f := range l.Files {
		files[i] = copies.File{Name: f.Name, Mode: fs.FileMode(f.Mode), Size: int64(min(f.Size, copies.MaxBytes+1))}
	}
	return files
}

// checkFiles bounds the files of a Launch.
func checkFiles(l *apiv1.Launch) error {
	switch {
	case len(l.Files) > 0 && (l.Exec != nil || l.Job.Number > 0 || len(l.Procs) == 0):
		return errors.New("launch: files are copied for the ranks of a session's first job")
	case slices.ContainsFunc(l.Apps, func(a *apiv1.App) bool { return int(a.Copied) > len(l.Files) || a.SessionDir && l.Exec != nil }):
		return errors.New("launch: a program is to be copied that is none of the files")
	}
	if err := copies.Check(filesOf(l)); err != nil {
		return fmt.Errorf("launch: %w", err)
	}
	return nil
}

// newCopies is the files that will come for a job, nil for none.
func (st *step) newCopies() *copies.Set {
	l := st.launch.Launch
	if len(l.Files) == 0 {
		return nil
	}
	return copies.New(copies.Config{Files: filesOf(l), Window: apiv1.CopyWindow, Dir: st.s.filesDir, Wrote: func(n int) {
		st.s.send((&apiv1.CopyCredit{Job: l.Job.Number, Bytes: uint32(n)}).Frame())
	}})
}

// filesName is the directory of copied files in a session's.
const filesName = "files"

// filesDir makes the directory of the session's files.
func (s *session) filesDir() (string, error) {
	dir, _ := s.agent.host.SessionDir(s.id)
	if dir == "" {
		return "", fmt.Errorf("%s cannot be written to: give the agent a writable TMPDIR, such as an emptyDir volume", s.agent.host.RunDir())
	}
	dir = filepath.Join(dir, filesName)
	return dir, os.MkdirAll(dir, 0o700)
}

// copyData takes the next bytes of a job's files. Those of a job that is not started any more are
// forgotten.
func (s *session) copyData(m *apiv1.CopyData) error {
	st := s.job(m.Job)
	if st == nil || st.copies == nil {
		return fmt.Errorf("bytes of files for job %d, which has none", m.Job)
	}
	return st.copies.Write(m.Data)
}

// receive waits for the job's files, and lets its programs refer to them. failed is nil when all is
// there.
func (st *step) receive() (failed *apiv1.StartFailed) {
	l := st.launch.Launch
	var err error
	if st.copies != nil {
		st.s.auditCopy(l)
		err = st.copies.Run(st.may)
	}
	needsDir := slices.ContainsFunc(l.Apps, func(a *apiv1.App) bool { return a.SessionDir })
	if st.copies != nil {
		st.files = st.copies.Dir()
	}
	if err == nil && needsDir && st.files == "" {
		st.files, err = st.s.filesDir()
	}
	if err != nil {
		failed = &apiv1.StartFailed{Rank: l.Job.Base + l.Procs[0].Rank, Phase: apiv1.StartPhase_START_COPY, Text: err.Error()}
		var ce *copies.Error
		if errors.As(err, &ce) {
			failed.Path = ce.Name
		}
		return failed
	}
	st.apps = slices.Clone(l.Apps)
	for i, a := range st.apps {
		if a.Copied == 0 && !a.SessionDir {
			continue
		}
		b := &apiv1.App{Argv: slices.Clone(a.Argv), Env: a.Env, Wdir: a.Wdir, WdirExplicit: a.WdirExplicit,
			Path: a.Path, AlsoWdir: a.AlsoWdir, IndexArgv: a.IndexArgv, Tools: a.Tools}
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

// removeFiles removes what was copied for jobs that have ended.
func (s *session) removeFiles(steps []*step) {
	for _, st := range steps {
		if st.copies != nil {
			st.copies.Remove()
		}
		if st.files != "" {
			os.RemoveAll(guard.SessionDir(s.agent.host.RunDir(), s.id))
			os.Remove(s.agent.host.RunDir()) // if nothing else is in it
		}
	}
}
