package modex

import (
	"slices"
	"testing"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// Members on two hosts get one number, which no other group has.
func TestContextIDs(t *testing.T) {
	here, there := NewGroups(), NewGroups()
	pair := idset.Of(0, 1)
	seen := map[uint64]string{}
	for _, made := range []struct {
		what, name string
		all        idset.Set
	}{
		{"the first", "g", pair}, {"the same again", "g", pair}, {"other members", "g", idset.Of(0, 1, 2)}, {"another name", "h", pair},
	} {
		a, ok := here.ContextID(0, made.name, "job", made.all)
		b, _ := there.ContextID(1, made.name, "job", made.all)
		if !ok || a != b || a < 1<<61 {
			t.Errorf("%s: %x and %x", made.what, a, b)
		}
		if other := seen[a]; other != "" {
			t.Errorf("%s has the number of %s", made.what, other)
		}
		seen[a] = made.what
	}
	for n := range maxMade {
		here.ContextID(n, "many", "job", pair)
	}
	if _, ok := here.ContextID(maxMade, "one more", "job", pair); ok {
		t.Error("groups without end are made")
	}
	here.Over(idset.Range(0, maxMade))
	if _, ok := here.ContextID(maxMade, "one more", "job", pair); !ok {
		t.Error("a job that is over leaves no room")
	}
}

func TestKnownGroups(t *testing.T) {
	pair, others := idset.Of(0, 1), idset.Of(1, 2)
	for _, tt := range []struct {
		name string
		do   func(*Groups)
		want []string
	}{
		{"joined", func(*Groups) {}, []string{"a", "b"}},
		{"one has quit", func(g *Groups) { g.Quit("a", 0) }, []string{"a", "b"}},
		{"both have", func(g *Groups) { g.Quit("a", 0); g.Quit("a", 1) }, []string{"b"}},
		{"one has left", func(g *Groups) { g.Left(1) }, []string{"a"}},
		{"the name is used anew", func(g *Groups) { g.Joined("a", others, 1); g.Quit("a", 0) }, []string{"a", "b"}},
		{"a job is over", func(g *Groups) { g.Over(idset.Of(2)) }, []string{"a"}},
		{"nobody's", func(g *Groups) { g.Quit("c", 0) }, []string{"a", "b"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewGroups()
			g.Joined("a", pair, 0)
			g.Joined("a", pair, 1)
			g.Joined("b", others, 1)
			tt.do(g)
			if got := g.Names(); !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
			if tt.name == "the name is used anew" && !g.Members("a").Equal(others) {
				t.Errorf("members %s", g.Members("a"))
			}
		})
	}
}

// What a member tells belongs to the group's number, and whose it is is left out.
func TestShared(t *testing.T) {
	told := bfrops.NewInfo("pmix.grp.info", bfrops.DataArray, bfrops.NewInfos(
		bfrops.NewInfo("pmix.procid", bfrops.ProcType, bfrops.Proc{}), bfrops.NewInfo("k", bfrops.Uint32, uint64(7))))
	pairs := Shared(9, []bfrops.Info{told})
	if len(pairs) != 1 || pairs[0].Key != bfrops.QualifiedKey {
		t.Fatalf("%+v", pairs)
	}
	infos := pairs[0].Value.Data.(bfrops.Array).Data
	value, number := infos[0].(bfrops.Info), infos[1].(bfrops.Info)
	if value.Key != "k" || number.Value.Data != uint64(9) || number.Flags != bfrops.InfoQualifier {
		t.Errorf("%+v", infos)
	}
	if pairs := Shared(9, nil); pairs != nil {
		t.Errorf("nothing is %+v", pairs)
	}
}
