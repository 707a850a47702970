package agent

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mpiup/mpiup/agent/policy"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/nearby"
	"github.com/mpiup/mpiup/topology/discover"
)

// A run on one machine tells its user what its ranks do, where they are and what they wrote; with --deny look it starts them, and tells nothing.
func TestALookAtARunHere(t *testing.T) {
	denied, err := policy.Deny("look")
	if err != nil {
		t.Fatal(err)
	}
	for name, allowed := range map[string]*policy.Policy{"no policy": nil, "--deny look": denied} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "look")
			a, err := New(Config{Name: "w0", Version: "test", Incarnation: "agent-life", Inventory: discover.Inventory{CPUs: 2}, Policy: allowed,
				Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/", Log: slog.New(slog.DiscardHandler),
				Inside: &Inside{Look: dir, Said: func() []byte { return []byte("[0 w0 stdout] hello\n") }}})
			if err != nil {
				t.Fatal(err)
			}
			r := run(t, a)
			start(t, a, "exec sleep 1000")
			question, err := proto.Marshal(&apiv1.RanksRequest{Stacks: &apiv1.StacksWish{}})
			if err != nil {
				t.Fatal(err)
			}
			for kind, rank := range map[byte]func([]byte) bool{
				apiv1.AskRanks: func(text []byte) bool {
					var m apiv1.RanksReply
					return proto.Unmarshal(text, &m) == nil && len(m.Ranks) == 1 && m.Ranks[0].Stack.GetMeans() != ""
				},
				apiv1.AskSaid: func(text []byte) bool { return string(text) == "[0 w0 stdout] hello\n" },
			} {
				told := nearby.Answer{}
				for told.Name == "" || allowed == nil && !rank(told.Text) { // until it listens, and its rank runs
					all, err := nearby.Ask(t.Context(), dir, kind, question, 1<<20)
					if err != nil || len(all) > 1 || t.Context().Err() != nil {
						t.Fatalf("question %d: %v, %v", kind, all, err)
					}
					for _, one := range all {
						told = one
					}
				}
				if refused := told.Err != nil && strings.Contains(told.Err.Error(), "refuses look to launchers (--deny look)"); refused != (allowed != nil) {
					t.Errorf("question %d: %q, %v", kind, told.Text, told.Err)
				}
			}
			r.end()
			if code := r.ended(); code != 143 {
				t.Errorf("exit code %d: no rank ran", code)
			}
		})
	}
}
