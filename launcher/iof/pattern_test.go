package iof

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/job"
)

// A host's name is its agent's word. Whatever it is, its output stays in the directory that the pattern names, under
// one name.
func TestNamesStayInTheirDirectory(t *testing.T) {
	for _, tt := range []struct{ host, want string }{
		{"w0", "w0.txt"},
		{"w0/2", "w0_2.txt"}, // the second of a name, as mpiup tells them apart
		{"../x", ".._x.txt"},
		{"../../../../../../tmp/mpiup-attack", ".._.._.._.._.._.._tmp_mpiup-attack.txt"},
		{"/etc/x", "_etc_x.txt"},
		{"a\x00b\x1bc\nd", "a_b_c_d.txt"},
		{"\xff", "_.txt"},
		{strings.Repeat("x", 5000), strings.Repeat("x", 200) + ".txt"},
	} {
		top := t.TempDir()
		dir := filepath.Join(top, "out")
		collect(t, Config{Ranks: 1, Files: [2]Pattern{job.Stdout: Pattern(dir + "/%h.txt")}, Host: func(int) string { return tt.host }}, func(s *Sink) {
			s.Write(0, job.Stdout, []byte("x\n"), false, noon)
			s.End(0)
		})
		for where, want := range map[string]string{top: "out", dir: tt.want} {
			all, err := os.ReadDir(where)
			if err != nil || len(all) != 1 || all[0].Name() != want {
				t.Errorf("%.100q: in %s is %v, not %s (%v)", tt.host, where, all, want, err)
			}
		}
	}
	for _, name := range []string{".", ".."} {
		if got := partOfName(name); strings.Trim(got, "_") != "" {
			t.Errorf("%q becomes %q", name, got)
		}
	}
}
