package trace

import (
	"context"
	"debug/elf"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/pattern"
)

// Bounds of a look at a crash by what its handler wrote.
const (
	maxPlaced = 16
	maxImages = 4
)

// written is a frame as backtrace_symbols(3) has it: "./a.out(+0x11a9) [0x55d0]", of Open MPI's handler too; of a program that is not moved in memory
// "./a.out[0x401178]".
var written = pattern.Of(`(\S*/[^\s([]+)(?:\(([^)+\s]*)(?:\+0x([0-9a-f]{1,16}))?\))? ?\[0x([0-9a-f]{1,16})\]`)

// Resolve finds functions and lines of the frames in what a process wrote last, in programs and libraries that have a table of lines. dir is
// the process's working directory; nil: it is not known.
func Resolve(ctx context.Context, text string, dir *bounded.Dir) (list []job.Placed) {
	ctx, cancel := awake.Within(ctx, coreTime)
	defer cancel()
	images := map[string]*image{}
	defer func() {
		for _, m := range images {
			if m != nil {
				m.close()
			}
		}
	}()
	all := written().FindAllStringSubmatch(text, maxPlaced)
	for i, m := range all {
		name := m[1]
		file, known := images[name]
		if !known && len(images) < maxImages {
			file, _ = openImage(dir, name) // what is none tells nothing
			images[name] = file
		}
		if file == nil {
			continue
		}
		at, ok := file.written(ctx, m[2], m[3], m[4])
		// What has called another function goes on behind the call; the frame that the signal hit stands next to the C library's that calls the handler.
		if hit := i == 0 || ofLibc(all[i-1][1]) && (i == 1 || !ofLibc(all[i-2][1])); !hit {
			at--
		}
		if place, lined := file.place(ctx, at); ok && lined {
			list = append(list, job.Placed{Frame: frameName(file.name, m[2], m[3]), Place: place})
		}
	}
	return list
}

// frameName is a frame as launchers name it (launcher/iof).
func frameName(file, function, offset string) string {
	switch {
	case function != "":
		return function + " (" + file + ")"
	case offset != "":
		return file + "+0x" + offset
	}
	return file
}

// written is the address in the file of a frame: an offset from where the file or a function begins, else the address in memory, where the
// program is not moved.
func (m *image) written(ctx context.Context, function, offset, memory string) (at uint64, ok bool) {
	past, _ := strconv.ParseUint(offset, 16, 64)
	switch {
	case function != "":
		at, ok = m.address(ctx, function)
		return at + past, ok
	case offset != "":
		return past, true
	}
	at, err := strconv.ParseUint(memory, 16, 64)
	return at, err == nil && m.elf.Type == elf.ET_EXEC
}

func ofLibc(file string) bool {
	name := filepath.Base(file)
	return strings.HasPrefix(name, "libc.") || strings.HasPrefix(name, "libc-") || strings.HasPrefix(name, "libpthread")
}
