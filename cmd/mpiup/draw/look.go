package draw

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/mpiup/mpiup/gpu"
	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/rdma"
	"github.com/mpiup/mpiup/topology/discover"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// Source is a machine's files.
type Source struct {
	Files sysfs.FS
	page  int        // bytes of a normal one; 0: as here
	gpus  gpu.Config // who is asked of GPUs besides files
	Close func() error
}

// Here is this machine.
func Here(gpus gpu.Config) Source {
	return Source{Files: sysfs.Host(), gpus: gpus, Close: func() error { return nil }}
}

// Open opens a directory or a captured file that holds a machine. Pages are of 4 KiB there: this
// process's say nothing of another machine.
func Open(name string) (Source, error) {
	info, err := os.Stat(name)
	if err != nil {
		return Source{}, err
	}
	none := func(string) (string, bool) { return "", false }
	src := Source{page: 4096, gpus: gpu.Config{Env: none}, Close: func() error { return nil }}
	if info.IsDir() {
		dir, err := sysfs.OpenDir(name)
		if err != nil {
			return Source{}, err
		}
		src.Files, src.Close = sysfs.New(dir), dir.Close
	} else {
		files, err := readCapture(name, info)
		if err != nil {
			return Source{}, err
		}
		src.Files = sysfs.New(files)
	}
	if !src.Files.Exists("sys") && !src.Files.Exists("proc") {
		src.Close()
		return Source{}, fmt.Errorf("%s holds neither sys/ nor proc/", name)
	}
	return src, nil
}

func readCapture(name string, info fs.FileInfo) (fs.FS, error) {
	if !info.Mode().IsRegular() || info.Size() > discover.MaxBytes {
		return nil, fmt.Errorf("%s is neither a directory nor a file of at most %d bytes", name, discover.MaxBytes)
	}
	text, err := bounded.Regular(name, discover.MaxBytes)
	if err != nil {
		return nil, err
	}
	files, err := discover.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return files.FS(), nil
}

// maxNotes is how many notes are shown.
const maxNotes = 20

// Look looks at a machine. A file that is there and cannot be understood becomes a note.
func Look(ctx context.Context, name string, src Source) (v *View, err error) {
	v = &View{Name: name}
	more := 0
	note := func(err error) {
		switch text := err.Error(); {
		case slices.Contains(v.Notes, text):
		case len(v.Notes) < maxNotes:
			v.Notes = append(v.Notes, text)
		default:
			more++
		}
	}
	files := src.Files.Noting(note)
	if v.Machine, err = discover.Machine(files, src.page); err != nil {
		return nil, err
	}
	if v.Limits, err = discover.FindCgroups(src.Files).Limit(v.Machine); err != nil {
		note(err)
	}
	v.GPUs = gpu.Survey(files, src.gpus.Env, v.Machine)
	src.gpus.FS = files
	if v.Driver, err = gpu.Ask(ctx, src.gpus); err != nil && ctx.Err() == nil {
		note(err)
	}
	v.GPUs = gpu.Merge(v.GPUs, v.Driver)
	v.HCAs = rdma.Read(files, rdma.Config{Survey: true})
	v.HCAs.AddIdle(files, v.Machine)
	if more > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("and %d more files like these", more))
	}
	return v, nil
}
