package hostlist

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/cost"
)

// short is entries as the tests write them: "a:2 b", with Open MPI's rule that a number is there.
func short(entries []Entry) string {
	var words []string
	for _, e := range entries {
		if e.Given {
			e.Name = fmt.Sprintf("%s:%d", e.Name, e.Slots)
		}
		words = append(words, e.Name)
	}
	return strings.Join(words, " ")
}

func TestDialectsOfFiles(t *testing.T) {
	for _, tt := range []struct {
		dialect    Dialect
		file, want string // want an error after "!"
	}{
		{OpenMPI, "a\na\nb\na\n", "a:3 b"},
		{OpenMPI, "a slots=2\na\n", "a:3"},
		{OpenMPI, "a\na slots=2\n", "!hostfile f line 2: host a is on line 1 already"},
		{OpenMPI, "a slots=2\nA. slots=1\n", "!hostfile f line 2: host A. is on line 1 already"},
		{OpenMPI, "me@a cpu=2 max-cpu=4\nb count = 3 username=you\n", "a:2 b:3"},
		{OpenMPI, "a max_slots=3\nb slots-max=2 slots=1\n", "a:3 b:1"},
		{OpenMPI, "a slots=2 rank=3\n", `!hostfile f line 1: host a: "rank=" is not known`},
		{OpenMPI, "a slots=2 cpu=2\n", "!hostfile f line 1: host a: slots are given twice"},
		{OpenMPI, "a slots=\n", "!hostfile f line 1: host a: the number of slots is missing"},
		{OpenMPI, "a slots=0\n", "a:0"},
		{OpenMPI, "a slots=-1\n", "!hostfile f line 1: host a: -1 slots"},
		{OpenMPI, "a slots=x\n", `!hostfile f line 1: host a: slots "x" is not a number`},
		{OpenMPI, "a 2\n", `!hostfile f line 1: "2" after host a is not known`},
		{OpenMPI, "^a\n", `!hostfile f names no host`},
		{OpenMPI, "a\nb slots=2\n^a\n", "b:2"},
		{OpenMPI, "^a # not that\na\nb\n", "b"},
		{OpenMPI, "a\n^a slots=2\n", `!hostfile f line 2: "^a": Open MPI's relative and excluded hosts`},
		{OpenMPI, "a slots=0\nb\n", "a:0 b"},
		{OpenMPI, "a slots=0\na\n", "a:1"},
		{Hydra, "a:0\n", "!hostfile f line 1: host a: 0 slots; a host has at least 1"},
		{OpenMPI, "+n0\n", `!hostfile f line 1: "+n0": Open MPI's relative and excluded hosts`},
		{OpenMPI, "@\n", `!hostfile f line 1: a host name is missing`},
		{OpenMPI, "# nothing\n// nothing\n\n", "!hostfile f names no host"},
		{OpenMPI, strings.Repeat("a slots=1 ", 1) + "\n" + strings.Repeat("a\n", MaxSlots), fmt.Sprintf("!hostfile f line %d: host a: %d slots are more", MaxSlots+1, MaxSlots+1)},
		{Hydra, "a:2\na\nb\n", "a:3 b"},
		{Hydra, "a:2\nb\na:1\n", "!hostfile f line 3: host a is named again after another host"},
		{Hydra, "a:2 user=me # first\n b \n", "a:2 b"},
		{Hydra, "a slots=2\n", "a:2"},
		{Hydra, "a:x\n", `!hostfile f line 1: host a: slots "x" is not a number`},
		{Hydra, "a binding=user:0\n", `!hostfile f line 1: host a: "binding=" is not known`},
		{Own, "a\na\n", "!hostfile f line 2: host a is on line 1 already"},
		{Own, "a cpu=2\n", `!hostfile f line 1: host a: "cpu=" is not known`},
		{Own, "me@a\n", `!hostfile f line 1: "me@a": no user name is needed`},
	} {
		entries, err := ParseFile(tt.file, "f", tt.dialect)
		check(t, fmt.Sprintf("%d %.60q", tt.dialect, tt.file), entries, err, tt.want)
	}
}

func check(t *testing.T, what string, entries []Entry, err error, want string) {
	t.Helper()
	message, bad := strings.CutPrefix(want, "!")
	switch {
	case bad && (err == nil || !strings.HasPrefix(err.Error(), message)):
		t.Errorf("%s: %v, not %q", what, err, message)
	case !bad && (err != nil || short(entries) != want):
		t.Errorf("%s: %q, %v, not %q", what, short(entries), err, want)
	}
}

func TestDialectsOfLists(t *testing.T) {
	for _, tt := range []struct {
		dialect    Dialect
		list, want string
	}{
		{OpenMPI, "a,b:4,a", "a:2 b:4"},
		{OpenMPI, "a:2,a:1", "a:3"},
		{OpenMPI, "a:*,b:auto,[fd00::7]:2", "a b fd00::7:2"},
		{OpenMPI, "me@a , b", "a:1 b:1"},
		{OpenMPI, "a,,b", `!host list "a,,b": a name is missing beside a comma`},
		{OpenMPI, "", `!host list "": a name is missing`},
		{OpenMPI, "a:", "!host a: the number of slots is missing"},
		{OpenMPI, "a:x", `!host a: slots "x" is not a number`},
		{OpenMPI, "a b", `!"a b" is not a host name`},
		{OpenMPI, "+n1", `!"+n1": Open MPI's relative`},
		{Hydra, "a,a:2,b", "a:3 b"},
		{Hydra, "a,b,a", "!host a is named again after another host"},
		{Hydra, "a:*", `!host a: slots "*"`},
		{Own, "a,a", "!host a is named twice"},
		{Own, "a,b:2", "a b:2"},
	} {
		entries, err := ParseListAs(tt.list, tt.dialect)
		check(t, fmt.Sprintf("%d %q", tt.dialect, tt.list), entries, err, tt.want)
	}
}

func FuzzDialects(f *testing.F) {
	f.Add("a slots=2\na\n", byte(1))
	f.Add("a:2\nb\na user=x\n", byte(2))
	f.Add("me@a,b:*,[::1]:3", byte(1))
	f.Add("me@a[0-2]:*,b[08-09]x[1]:3", byte(1))
	f.Fuzz(func(t *testing.T, text string, d byte) {
		defer cost.Watch(t, rangeCost, len(text))()
		dialect := Dialect(d % 3)
		for _, parse := range []func() ([]Entry, error){
			func() ([]Entry, error) { return ParseFile(text, "f", dialect) },
			func() ([]Entry, error) { return ParseListAs(text, dialect) },
		} {
			entries, err := parse()
			if err != nil {
				continue
			}
			if err := CheckDistinct(entries); err != nil {
				t.Errorf("%q: %v", text, err)
			}
			for _, e := range entries {
				if e.Name == "" || e.Given != (e.Slots > 0) || e.Slots > MaxSlots {
					t.Errorf("%q: %+v", text, e)
				}
			}
		}
	})
}

// rangeCost is what a list may cost: a few bytes stand for as many hosts as a job can have (w[0-65535]), each with its name, an
// entry and its place among those that are distinct, in two readings.
var rangeCost = cost.Bound{Fixed: cost.Parser.Fixed + 2*1024*MaxHosts, PerByte: cost.Parser.PerByte}
