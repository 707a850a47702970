package draw_test

import (
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/gpu"
	"github.com/mpiup/mpiup/rdma"
	"github.com/mpiup/mpiup/test/golden"
	"github.com/mpiup/mpiup/test/machine"
	"github.com/mpiup/mpiup/topology/discover"
	"github.com/mpiup/mpiup/topology/draw"
	"github.com/mpiup/mpiup/topology/sysfs"
	"github.com/mpiup/mpiup/topology/usable"
)

func noEnv(string) (string, bool) { return "", false }

// view looks at a machine as mpiup topo does.
func view(t testing.TB, name string, files fs.FS) *draw.View {
	t.Helper()
	v := &draw.View{Name: name}
	f := sysfs.New(files).Noting(func(err error) { v.Notes = append(v.Notes, err.Error()) })
	var err error
	if v.Machine, err = discover.Machine(f, discover.Config{PageSize: 4096}); err != nil {
		t.Fatal(err)
	}
	if v.Limits, err = usable.Limit(files, v.Machine); err != nil {
		t.Fatal(err)
	}
	v.GPUs, v.Driver, v.HCAs = gpu.Survey(f, noEnv, v.Machine), gpu.Read(f, noEnv), rdma.Read(f, rdma.Config{Survey: true})
	return v
}

func drawn(t *testing.T, file string, write func(io.Writer) error) {
	t.Helper()
	var got bytes.Buffer
	if err := write(&got); err != nil {
		t.Fatal(err)
	}
	golden.Is(t, filepath.Join("testdata", file), got.String())
}

func TestText(t *testing.T) {
	for _, name := range machine.Names(t) {
		t.Run(name, func(t *testing.T) {
			v := view(t, name, machine.FS(t, name))
			drawn(t, name+".txt", func(w io.Writer) error { return draw.Text(w, v) })
		})
	}
}

func TestJSON(t *testing.T) {
	v := view(t, "devices", machine.FS(t, "devices"))
	drawn(t, "devices.json", func(w io.Writer) error { return draw.JSON(w, v) })
	for _, name := range machine.Names(t) {
		v := view(t, name, machine.FS(t, name))
		var b bytes.Buffer
		if err := draw.JSON(&b, v); err != nil {
			t.Fatal(err)
		}
		var got struct{ Summary usable.Summary }
		if err := json.Unmarshal(b.Bytes(), &got); err != nil || got.Summary != draw.Summary(v) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if !strings.HasPrefix(b.String(), "{\n  \"summary\": {") {
			t.Errorf("%s does not begin with the summary: %.40q", name, b.String())
		}
	}
}

// The whole picture of one machine; that all are well drawn is TestPicture's.
func TestSVG(t *testing.T) {
	v := view(t, "cgroup", machine.FS(t, "cgroup"))
	drawn(t, "cgroup.svg", func(w io.Writer) error { return draw.SVG(w, v) })
}
