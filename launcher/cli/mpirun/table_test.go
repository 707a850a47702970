package mpirun

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
	"github.com/mpiup/mpiup/test/cost"
)

// No two rows of a family have one name, and each says what it means.
func TestTables(t *testing.T) {
	for _, f := range []line.Family{line.OpenMPI, line.Hydra} {
		seen := map[string]bool{}
		for _, r := range rowsOf(f) {
			for _, n := range strings.Fields(r.Names) {
				if seen[n] || strings.HasPrefix(n, "-") {
					t.Errorf("%s: %s stands twice", f, n)
				}
				seen[n] = true
			}
			if r.Means == "" || r.Level == line.Done && r.Set == nil || r.Level == line.Refused && r.Set != nil || r.Args == 2 && r.Level != line.Done {
				t.Errorf("%s: the row of %s makes no sense", f, r.Names)
			}
		}
	}
}

// Every option, with one hyphen or two: with too few values it is an error, misspelt it is one that
// names it, and with values the program is what follows them, or the error is about the values.
func TestEveryOption(t *testing.T) {
	o := world{files: map[string]string{"v": "h slots=1\n"}}.outside()
	for _, f := range []line.Family{line.OpenMPI, line.Hydra} {
		for _, r := range rowsOf(f) {
			for _, name := range strings.Fields(r.Names) {
				for _, h := range []string{"-", "--"} {
					everyOption(t, f, r, h+name, o)
				}
			}
		}
	}
}

func everyOption(t *testing.T, f line.Family, r line.Row, word string, o line.Outside) {
	t.Helper()
	for n := range r.Args {
		_, err := Parse(f, append([]string{word}, slices.Repeat([]string{"v"}, n)...), o)
		if err == nil || !strings.HasPrefix(err.Error(), word+" needs ") && r.Level != line.Refused {
			t.Errorf("%s: %s with %d values: %v", f, word, n, err)
		}
	}
	for _, wrong := range []string{word + "xq", word + "x=1"} {
		_, err := Parse(f, []string{wrong, "v", "v", "a"}, o)
		if err == nil || !strings.HasPrefix(err.Error(), "unknown option "+wrong) {
			t.Errorf("%s: %s: %v", f, wrong, err)
		}
	}
	got, err := Parse(f, append(append([]string{word}, slices.Repeat([]string{"v"}, r.Args)...), "program", "-x", ":", "--", "other"), o)
	switch {
	case r.Level == line.Refused:
		if err == nil || err.Error() != word+": "+r.Means {
			t.Errorf("%s: %s: %v", f, word, err)
		}
	case err != nil:
		if !strings.HasPrefix(err.Error(), strings.Join(append([]string{word}, slices.Repeat([]string{"v"}, r.Args)...), " ")+": ") && !slices.Contains([]string{"app", "configfile", "am"}, r.Name()) {
			t.Errorf("%s: %s: the error does not name it: %v", f, word, err)
		}
	case got.Version || got.Help:
	case len(got.Contexts) != 2 || !slices.Equal(got.Contexts[0].Argv, []string{"program", "-x"}) || !slices.Equal(got.Contexts[1].Argv, []string{"other"}):
		t.Errorf("%s: %s: programs %v", f, word, got.Contexts)
	case r.Level == line.NoEffect && len(got.Without) == 0, r.Level == line.Warned && len(got.Warnings) == 0:
		t.Errorf("%s: %s has no effect, which nobody is told", f, word)
	}
}

// A megabyte of arguments is nothing special.
func TestLongLines(t *testing.T) {
	o := world{}.outside()
	long := slices.Repeat([]string{"-x", "A=" + strings.Repeat("v", 1000)}, 500)
	long = append(append(long, "a"), slices.Repeat([]string{strings.Repeat("w", 100)}, 5000)...)
	got, err := Parse(line.OpenMPI, long, o)
	if err != nil || len(got.Contexts[0].Argv) != 5001 || len(got.Contexts[0].Env) != 1 {
		t.Errorf("%v, %d words", err, len(got.Contexts[0].Argv))
	}
	var distinct []string
	for i := range 100_000 {
		distinct = append(distinct, "-genv", fmt.Sprintf("V%d=", i))
	}
	if got, err := Parse(line.Hydra, append(distinct, "a"), o); err != nil || len(got.Contexts[0].Env) != 100_000 {
		t.Errorf("%v, %d variables", err, len(got.Contexts[0].Env))
	}
	if _, err := Parse(line.Hydra, slices.Repeat([]string{"a"}, line.MaxWords+1), o); err == nil || !strings.Contains(err.Error(), "are possible") {
		t.Errorf("too many words: %v", err)
	}
	many := strings.Repeat("-np 1 a : ", 3000)
	if got, err := Parse(line.OpenMPI, strings.Fields(many), o); err != nil || len(got.Contexts) != 3000 {
		t.Errorf("%v, %d programs", err, len(got.Contexts))
	}
}

// What is refused is refused for its reason, with a value behind "=" or in words of its own, or without any.
func TestRefusedWithAnyValue(t *testing.T) {
	for _, f := range []line.Family{line.OpenMPI, line.Hydra} {
		for _, r := range rowsOf(f) {
			for _, name := range r.Spelled() {
				for _, args := range [][]string{{name}, {name + "=1"}, {name + "="}, {name, "1"}, {name, "1", "2"}} {
					_, err := Parse(f, args, world{}.outside()) // of no option a panic
					if r.Level == line.Refused && (err == nil || err.Error() != args[0]+": "+r.Means) {
						t.Errorf("%s: %q: %v, not %s", f, args, err, r.Means)
					}
				}
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"-np\x004\x00a", "-genv\x00A=1\x00-n\x002\x00a\x00:\x00b", "--map-by\x00ppr:2:node:pe=2\x00-H\x00a:2,b\x00a", "--app\x00v",
		"-configfile\x00v", "--hostfile\x00v\x00-H\x00h\x00a", "--mca\x00orte_default_hostfile\x00v\x00a",
		"--map-by\x00seq\x00--hostfile\x00v\x00a\x00:\x00-H\x00h\x00b", "--map-by\x00seq:FILE=v\x00a", "--rankfile\x00v\x00a", "--mca\x00rmaps\x00seq\x00-H\x00a,b:2\x00a",
		"--debug=1\x00a", "-umask\x0007\x00-gtool\x00x:0\x00a", "-n\x001\x00-host\x00a\x00x\x00:\x00-n\x001\x00-host\x00b:2,c\x00y"} {
		f.Add(s, "A=1\x00OMPI_MCA_orte_tag_output=1\x00MPIUP_FAMILY=openmpi", "h slots=2\n-n 1 a : b\n")
	}
	f.Add("a", "PMIX_MCA_mca_base_param_files=/h/.prte/mca-params.conf", "orte_tag_output = 1\nmca_base_env_list = A=1;B\n-x C=1\nbtl = self\nmap_by = ppr:1:node\n")
	f.Add("a", "HYDRA_BINDING=core", "-n 3 -l -hosts a:2\n-genv A 1\n")
	f.Fuzz(func(t *testing.T, words, env, file string) {
		defer cost.Watch(t, cost.Parser, len(words)+len(env)+len(file))()
		args := strings.Split(words, "\x00")
		found := map[string]string{}
		for _, path := range []string{"/h/.openmpi/mca-params.conf", "/h/.prte/mca-params.conf", "/etc/openmpi/openmpi-mca-params-override.conf",
			"/etc/openmpi/openmpi-default-hostfile", "/h/.mpiexec.hydra.conf"} {
			found[path] = file
		}
		o := world{files: map[string]string{"v": file}, found: found, prefix: "/usr"}.outside()
		o.Environ = strings.Split(env, "\x00")
		o.Lookup = func(name string) (string, bool) {
			for _, kv := range o.Environ {
				if v, ok := strings.CutPrefix(kv, name+"="); ok {
					return v, true
				}
			}
			return map[string]string{"HOME": "/h"}[name], name == "HOME"
		}
		if decided, err := Decide("mpirun", args, o.Lookup, func([]string) string { return "" }); err == nil && decided.Why == "" {
			t.Error("no reason is given")
		}
		for _, family := range []line.Family{line.OpenMPI, line.Hydra} {
			l, err := Parse(family, args, o)
			if err != nil || l.Version || l.Help {
				continue
			}
			sound(t, &l)
			if _, why := Version("mpirun", &l, o.Lookup, func([]string) string { return "" }); why == "" {
				t.Error("no reason is given")
			}
			for i := range l.Contexts {
				Forward(&l, i, o.Environ)
			}
		}
	})
}

// sound is what every line that was read keeps to.
func sound(t *testing.T, l *line.Line) {
	t.Helper()
	if len(l.Contexts) == 0 {
		t.Error("no program")
	}
	for _, c := range l.Contexts {
		if len(c.Argv) == 0 || c.Argv[0] == "" || c.N < 0 || c.N > line.MaxRanks || c.Wdir != "" && c.Wdir[0] != '/' {
			t.Errorf("program %+v", c)
		}
		for _, own := range c.On {
			if !slices.ContainsFunc(l.Entries, func(e hostlist.Entry) bool { return strings.EqualFold(e.Name, own.Name) }) {
				t.Errorf("%s of %s is none of the job's hosts", own.Name, c.Argv[0])
			}
		}
		seen := map[string]bool{}
		for _, kv := range c.Env {
			name, _, ok := strings.Cut(kv, "=")
			if !ok || name == "" || seen[name] {
				t.Errorf("variable %q", kv)
			}
			seen[name] = true
		}
	}
	if l.PerHost < 0 || l.PerHost > line.MaxRanks || l.Timeout < 0 {
		t.Errorf("%+v", l)
	}
}
