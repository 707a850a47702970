package outfit

import (
	"slices"
	"strings"
	"testing"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

func TestCommandLine(t *testing.T) {
	for _, tt := range []struct {
		name string
		app  *apiv1.App
		want string // of ranks 0 to 2, words with blanks; a path after "="
	}{
		{"plain", &apiv1.App{}, "a b,a b,a b"},
		{"its rank", &apiv1.App{IndexArgv: true}, "a-0 b=a,a-1 b=a,a-2 b=a"},
		{"a tool", &apiv1.App{Tools: []*apiv1.Tool{{Argv: []string{"t", "-q"}}}}, "t -q a b,t -q a b,t -q a b"},
		{"the first that fits", &apiv1.App{Tools: []*apiv1.Tool{{Argv: []string{"t"}, Ranks: "1-2"}, {Argv: []string{"u"}, Ranks: "0,1"}}, IndexArgv: true}, "u a b,t a b,t a b"},
		{"none that fits", &apiv1.App{Tools: []*apiv1.Tool{{Argv: []string{"t"}, Ranks: "7"}}}, "a b,a b,a b"},
	} {
		tt.app.Argv = []string{"a", "b"}
		l, err := Parse(&apiv1.Launch{Job: &apiv1.Job{}, Apps: []*apiv1.App{tt.app}})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for rank := range uint32(3) {
			argv, path := l.commandLine(tt.app, &apiv1.Proc{Rank: rank})
			words := strings.Join(argv, " ")
			if path != "" {
				words += "=" + path
			}
			got = append(got, words)
		}
		if strings.Join(got, ",") != tt.want || !slices.Equal(tt.app.Argv, []string{"a", "b"}) {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
	for _, tools := range [][]*apiv1.Tool{{{}}, {{Argv: []string{""}}}, {{Argv: []string{"t"}, Ranks: "x"}}, {{Argv: []string{"t"}, Ranks: "0-99999999"}}, slices.Repeat([]*apiv1.Tool{{Argv: []string{"t"}}}, maxTools+1)} {
		if _, err := Parse(&apiv1.Launch{Job: &apiv1.Job{}, Apps: []*apiv1.App{{Tools: tools}}}); err == nil {
			t.Errorf("%.3v passes", tools)
		}
	}
}
