package checkup

import (
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestFind(t *testing.T) {
	program := &fstest.MapFile{Mode: 0o755}
	image := fstest.MapFS{
		"usr/bin/ib_write_bw":       program,
		"usr/local/bin/osu_latency": &fstest.MapFile{Mode: 0o644}, // no program
		"usr/local/libexec/osu-micro-benchmarks/mpi/pt2pt/osu_latency": program,
		"opt/hpcx/ompi/tests/osu-micro-benchmarks-7.2/osu_bw":          program,
		"opt/hpcx/ompi/tests/osu-micro-benchmarks-7.2-cuda/osu_bw":     program,
		"home/me/tests/ib_write_bw":                                    program,
		"opt/osu_allreduce":                                            &fstest.MapFile{Mode: 0o755 | 1<<31}, // a directory
		"opt/a/b/c/d/e/f/g/h/i/j/k/all_reduce_perf":                    program,                              // too deep
	}
	names := []string{"ib_write_bw", "osu_bw", "osu_latency", "osu_allreduce", "all_reduce_perf"}
	for _, tt := range []struct {
		name          string
		first, search []string
		want          map[string]string
	}{
		{"PATH and the usual places", nil, []string{"/usr/local/bin", "/usr/bin"}, map[string]string{"ib_write_bw": "/usr/bin/ib_write_bw",
			"osu_bw":      "/opt/hpcx/ompi/tests/osu-micro-benchmarks-7.2/osu_bw",
			"osu_latency": "/usr/local/libexec/osu-micro-benchmarks/mpi/pt2pt/osu_latency"}},
		{"one's own first", []string{"/home", "/opt/hpcx/ompi/tests/osu-micro-benchmarks-7.2-cuda", "/opt/a/b/c"}, []string{"/usr/bin"}, map[string]string{
			"ib_write_bw": "/home/me/tests/ib_write_bw", "osu_bw": "/opt/hpcx/ompi/tests/osu-micro-benchmarks-7.2-cuda/osu_bw",
			"osu_latency":     "/usr/local/libexec/osu-micro-benchmarks/mpi/pt2pt/osu_latency",
			"all_reduce_perf": "/opt/a/b/c/d/e/f/g/h/i/j/k/all_reduce_perf"}},
		{"what is no directory of this machine", []string{"", ".", "..", "/../..", "relative", "/usr/bin/ib_write_bw", "/nowhere"}, []string{"", "."}, map[string]string{
			"osu_bw":      "/opt/hpcx/ompi/tests/osu-micro-benchmarks-7.2/osu_bw",
			"osu_latency": "/usr/local/libexec/osu-micro-benchmarks/mpi/pt2pt/osu_latency"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Find(image, names, tt.first, tt.search)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// An image of any size costs a bounded search.
func TestFindIsBounded(t *testing.T) {
	image := fstest.MapFS{}
	for i := range 20 {
		for k := range 100 {
			image[fmt.Sprintf("opt/%02d/%02d", i, k)] = &fstest.MapFile{}
		}
	}
	f := finder{fsys: image, want: []string{"osu_bw"}, most: 500, found: map[string]string{}}
	f.below("/opt")
	if f.seen < 500 || f.seen >= 600 {
		t.Errorf("%d entries were looked at", f.seen)
	}
}
