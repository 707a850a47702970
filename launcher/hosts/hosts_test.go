package hosts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/test/cost"
)

// Each archive in testdata/hosts is a container: "env", "hostname", "pod" where it holds a job's secret, "serves" where its agent is this process, files below
// etc/, and what is expected in "want": the source, then a host a line, or an error.
func TestSources(t *testing.T) {
	files, _ := filepath.Glob("testdata/hosts/*.txtar")
	if len(files) == 0 {
		t.Fatal("no fixtures")
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			ar, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := Sources{Root: t.TempDir(), Number: Number{Env: func(string) string { return "" }}, Environ: func() []string { return nil }}
			var want string
			for _, f := range ar.Files {
				text := string(f.Data)
				switch f.Name {
				case "env":
					lines := strings.Fields(strings.ReplaceAll(text, "$ROOT", s.Root))
					s.Environ = func() []string { return lines }
					s.Env = func(name string) string {
						for _, l := range lines {
							if v, ok := strings.CutPrefix(l, name+"="); ok {
								return v
							}
						}
						return ""
					}
				case "hostname":
					s.Hostname = strings.TrimSpace(text)
				case "size":
					s.Size = len(strings.TrimSpace(text))
				case "pod":
					s.Pod = true
				case "serves":
					s.Serves = true
				case "want":
					want = text
				default:
					path := filepath.Join(s.Root, f.Name)
					if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(path, f.Data, 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
			if got := strings.ReplaceAll(describe(s.Static()), s.Root, "$ROOT"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func describe(set *Set, err error) string {
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	if set == nil {
		return "nothing\n"
	}
	lines := []string{set.From}
	for _, h := range set.Hosts {
		l := h.Entry.Name
		if h.Entry.Given {
			l += " slots given"
		}
		if h.Local {
			l += " (here)"
		}
		lines = append(lines, l)
	}
	return strings.Join(lines, "\n") + "\n"
}

func TestExplicitHostsComeFirst(t *testing.T) {
	s := Sources{Root: t.TempDir(), Hostname: "l0", Number: Number{Env: func(k string) string { return map[string]string{"LWS_LEADER_ADDRESS": "x", "LWS_GROUP_SIZE": "2"}[k] }},
		Entries: []hostlist.Entry{{Name: "w0"}, {Name: "localhost"}, {Name: "127.0.0.1"}, {Name: "127.0.0.2"}, {Name: "l0.sub"}}}
	set, err := s.Static()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := describe(set, nil), "the command line\nw0\nlocalhost (here)\n127.0.0.1 (here)\n127.0.0.2\nl0.sub (here)\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCompareNames(t *testing.T) {
	for _, tt := range [][2]string{{"w2", "w10"}, {"w-1-9", "w-1-10"}, {"a", "b"}, {"w", "w1"}, {"w1.x", "w2.a"}} {
		if CompareNames(tt[0], tt[1]) >= 0 || CompareNames(tt[1], tt[0]) <= 0 || CompareNames(tt[0], tt[0]) != 0 {
			t.Errorf("%s does not come before %s", tt[0], tt[1])
		}
	}
}

func FuzzFullName(f *testing.F) {
	f.Add("10.0.0.7 pod.sub.ns.svc.cluster.local pod\n", "pod")
	f.Add("# x\n::1 localhost\n", "")
	f.Fuzz(func(t *testing.T, hosts, name string) {
		defer cost.Watch(t, cost.Parser, len(hosts)+len(name))()
		full := fullName(hosts, name)
		if len(full) < len(name) || !strings.EqualFold(full[:len(name)], name) {
			t.Errorf("fullName(%q, %q) = %q", hosts, name, full)
		}
	})
}

func FuzzCompareNames(f *testing.F) {
	f.Add("w2", "w10")
	f.Add("w02", "w2")
	f.Fuzz(func(t *testing.T, a, b string) {
		defer cost.Watch(t, cost.Parser, len(a)+len(b))()
		if CompareNames(a, b) != -CompareNames(b, a) {
			t.Errorf("%q and %q have no order", a, b)
		}
	})
}
