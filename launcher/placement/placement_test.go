package placement

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/test/golden"
)

func TestGolden(t *testing.T) {
	const file = "testdata/place.txt"
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for line := range strings.Lines(string(want)) {
		if strings.HasPrefix(line, "#") {
			got.WriteString(line)
		} else if cmd, ok := strings.CutPrefix(line, "> "); ok {
			fmt.Fprintf(&got, "\n%s%s", line, play(t, strings.Fields(cmd)))
		}
	}
	golden.Is(t, file, got.String())
}

func play(t *testing.T, words []string) string {
	t.Helper()
	var hosts []job.Host
	if !strings.HasPrefix(words[0], "-") {
		for h := range strings.SplitSeq(words[0], ",") {
			hosts = append(hosts, host(t, h))
		}
		words = words[1:]
	}
	var apps []job.App
	var p Policy
	for _, ctx := range strings.Split(strings.Join(words, " "), " : ") {
		app := job.App{}
		args := strings.Fields(ctx)
		for len(args) > 0 && strings.HasPrefix(args[0], "-") && app.Argv == nil {
			switch args[0] {
			case "-n":
				app.N = atoi(t, args[1])
			case "-N":
				p.PerNode = atoi(t, args[1])
			case "--map-by":
				p.MapBy = MapBy(args[1])
			case "--on":
				for share := range strings.SplitSeq(args[1], ",") {
					name, slots, given := strings.Cut(share, ":")
					s := job.Share{Host: name}
					if given {
						s.Slots = atoi(t, slots)
					}
					app.On = append(app.On, s)
				}
			case "--rank-by":
				p.RankBy = MapBy(args[1])
			case "--oversubscribe", "--limited":
				p.Oversubscribe = p.Oversubscribe || args[0] == "--oversubscribe"
				p.Limited = p.Limited || args[0] == "--limited"
				args = args[1:]
				continue
			}
			args = args[2:]
		}
		app.Argv = args
		apps = append(apps, app)
	}
	plan, err := Place(hosts, apps, p)
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	out := Render(plan, apps)
	for _, w := range plan.Warnings {
		out += "warning: " + w + "\n"
	}
	return out
}

func host(t *testing.T, text string) job.Host {
	t.Helper()
	text, cpus, _ := strings.Cut(text, "/")
	name, slots, given := strings.Cut(text, ":")
	if !given {
		name, slots, _ = strings.Cut(text, "=")
	}
	h := job.Host{Name: name, Slots: atoi(t, slots), SlotsGiven: given}
	if cpus != "" {
		h.CPUs = atoi(t, cpus)
	}
	return h
}

func atoi(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Whatever is asked: every rank once, local ranks dense, no given slots exceeded unless
// wished, order as the policy says, and an error only when the numbers call for one.
func TestProperties(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		hosts := make([]job.Host, 1+rnd.IntN(6))
		given, elastic := 0, false
		for i := range hosts {
			hosts[i] = job.Host{Name: fmt.Sprint("w", i), Slots: 1 + rnd.IntN(5), SlotsGiven: rnd.IntN(2) == 0, CPUs: rnd.IntN(5)}
			given += hosts[i].Slots
			elastic = elastic || !hosts[i].SlotsGiven
		}
		apps := []job.App{{Argv: []string{"a"}, N: rnd.IntN(40)}}
		if rnd.IntN(3) == 0 {
			apps = []job.App{{Argv: []string{"a"}, N: 1 + rnd.IntN(9)}, {Argv: []string{"b"}, N: 1 + rnd.IntN(9)}}
		}
		p := Policy{MapBy: []MapBy{BySlot, ByNode, ""}[rnd.IntN(3)], Oversubscribe: rnd.IntN(2) == 0}
		if rnd.IntN(3) == 0 {
			p.PerNode = 1 + rnd.IntN(5)
		}
		n := 0
		for _, a := range apps {
			n += a.N
		}
		plan, err := Place(hosts, apps, p)
		what := fmt.Sprintf("%+v %+v %+v", hosts, apps, p)
		if err != nil {
			if p.PerNode == 0 && (n <= given || elastic || p.Oversubscribe) ||
				p.PerNode > 0 && p.Oversubscribe && n <= p.PerNode*len(hosts) {
				t.Fatalf("%s: %v", what, err)
			}
			continue
		}
		checkPlan(t, what, plan, hosts, apps, p)
	}
}

func checkPlan(t *testing.T, what string, plan *job.Plan, hosts []job.Host, apps []job.App, p Policy) {
	t.Helper()
	counts := make([]int, len(plan.Hosts))
	sizes := make([]int, len(apps))
	var order []int
	for i, pl := range plan.Placements {
		if pl.Rank != job.Rank(i) || pl.LocalRank != counts[pl.Host] {
			t.Fatalf("%s: placement %d is %+v", what, i, pl)
		}
		counts[pl.Host]++
		sizes[pl.App]++
		order = append(order, pl.Host)
	}
	for i, a := range apps {
		if a.N != 0 && sizes[i] != a.N {
			t.Fatalf("%s: app %d has %d ranks", what, i, sizes[i])
		}
	}
	slots, over := 0, false
	for h, host := range plan.Hosts {
		if counts[h] == 0 {
			t.Fatalf("%s: host %d has no rank", what, h)
		}
		if host.SlotsGiven && !p.Oversubscribe && counts[h] > host.Slots || p.PerNode > 0 && counts[h] > p.PerNode {
			t.Fatalf("%s: %d ranks on %+v", what, counts[h], host)
		}
		over = over || host.CPUs > 0 && counts[h] > host.CPUs
	}
	for _, h := range hosts {
		slots += h.Slots
	}
	if plan.Universe != max(slots, len(order)) || len(plan.Warnings) > 1 || (len(plan.Warnings) == 1) != over {
		t.Fatalf("%s: universe %d, warnings %q", what, plan.Universe, plan.Warnings)
	}
	if p.MapBy != ByNode && !slices.IsSorted(order) {
		t.Fatalf("%s: by slot, hosts in order %v", what, order)
	}
	if p.MapBy == ByNode { // a rank goes where no other open host has fewer
		seen := make([]int, len(counts))
		for _, h := range order {
			for o := range seen {
				if o != h && seen[o] < counts[o] && (seen[o] < seen[h] || seen[o] == seen[h] && o < h) {
					t.Fatalf("%s: by node, hosts in order %v", what, order)
				}
			}
			seen[h]++
		}
	}
	if p.PerNode > 0 && apps[0].N == 0 && (len(plan.Hosts) != len(hosts) || slices.Min(counts) != p.PerNode) {
		t.Fatalf("%s: counts %v", what, counts)
	}
}

func big(hosts, slots int) []job.Host {
	hs := make([]job.Host, hosts)
	for i := range hs {
		hs[i] = job.Host{Name: fmt.Sprintf("w%d", i), Slots: slots, SlotsGiven: true, CPUs: slots}
	}
	return hs
}

func BenchmarkPlaceAndRender(b *testing.B) {
	for _, size := range [][2]int{{64, 8}, {512, 64}} {
		for _, by := range []MapBy{BySlot, ByNode} {
			b.Run(fmt.Sprintf("%dx%d/%s", size[0], size[1], by), func(b *testing.B) {
				hosts, apps := big(size[0], size[1]), []job.App{{Argv: []string{"a"}}}
				for b.Loop() {
					plan, err := Place(hosts, apps, Policy{MapBy: by})
					if err != nil || len(Render(plan, apps)) == 0 {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// One huge host among many small ones must not make dealing out quadratic.
func TestUnevenHostsAreFast(t *testing.T) {
	hosts := big(1<<16, 1)
	hosts[7].Slots = 1 << 16
	plan, err := Place(hosts, []job.App{{Argv: []string{"a"}}}, Policy{MapBy: ByNode})
	if err != nil || len(plan.Placements) != 1<<17-1 {
		t.Fatal(err)
	}
}

func TestCommand(t *testing.T) {
	for _, tt := range []struct {
		argv []string
		want string
	}{
		{[]string{"./a", "-x", "y=1"}, "./a -x y=1"},
		{[]string{"sh", "-c", "echo $A it's", ""}, `sh -c 'echo $A it'\''s' ''`},
		{[]string{"a", "\x1b[2J\n"}, `a "\x1b[2J\n"`},
		{[]string{"a", strings.Repeat("b", 300), "c"}, "a " + strings.Repeat("b", 200) + "... ..."},
	} {
		if got := command(tt.argv); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.argv, got, tt.want)
		}
	}
}

// A mapping by node says nothing of the numbers where --rank-by does, for mpirun and mpiup run alike.
func TestOrdersOfWords(t *testing.T) {
	hosts := []job.Host{host(t, "w0:4"), host(t, "w1:4")}
	for words, want := range map[string]string{
		"-np 4 --map-by node":                "w0 w1 w0 w1",
		"-np 4 --map-by node --rank-by node": "w0 w1 w0 w1",
		"-np 4 --map-by node --rank-by slot": "w0 w0 w1 w1",
		"-np 4 --map-by node --rank-by fill": "w0 w0 w1 w1",
		"-np 4 --map-by node --rank-by core": "w0 w0 w1 w1",
		"-np 4 --map-by slot --rank-by core": "w0 w0 w0 w0",
		"-np 6 --map-by slot --rank-by node": "w0 w1 w0 w1 w0 w0",
	} {
		p, apps := policyOf(t, words)
		plan, err := Place(hosts, apps, p)
		if err != nil {
			t.Fatalf("%s: %v", words, err)
		}
		var got []string
		for _, pl := range plan.Placements {
			got = append(got, plan.Hosts[pl.Host].Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %s, not %s", words, got, want)
		}
	}
}
