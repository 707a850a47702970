package hang

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/idset"
)

// placed is one stack a word, of processes 0, 1, ...: "means:frame,frame".
func placed(words string) (list []Stack) {
	for id, w := range strings.Fields(words) {
		w = strings.ReplaceAll(w, "·", " ")
		means, frames, ok := strings.Cut(w, ":")
		if !ok || strings.HasPrefix(frames, ":") {
			means, frames = "eu-stack", w
		}
		list = append(list, Stack{ID: id, Whereabouts: Whereabouts{Rank: uint32(id), Host: "w0", Means: means, Frames: strings.Split(frames, ",")}})
	}
	return list
}

// Who computes while all others wait in one call of MPI is found, and nobody where it is not as plain as that.
func TestByStacks(t *testing.T) {
	const barrier, spin = "poll,PMPI_Barrier,main ", "spin,main "
	for _, tt := range []struct{ name, stacks, ids, call string }{
		{"nobody looked", "", "", ""},
		{"one computes", barrier + spin + barrier, "1", "MPI_Barrier"},
		{"two of four do", spin + barrier + spin + barrier, "0,2", "MPI_Barrier"},
		{"more than half do", spin + barrier + spin, "", ""},
		{"all wait", barrier + barrier, "", "MPI_Barrier"},
		{"all compute", spin + spin, "", ""},
		{"the others wait in two calls", barrier + "MPI_Recv,main " + spin + barrier, "2", "calls of MPI"},
		{"in two calls, and two compute", barrier + "MPI_Recv,main " + spin + spin, "", ""},
		{"in two calls, of which one polls", barrier + "MPI_Test,main " + spin + barrier, "", ""},
		{"one waits for a message, and the others in a collective", barrier + "MPI_Recv,main " + barrier, "1", "MPI_Barrier"},
		{"one of two does", "MPI_Recv,main " + barrier, "0", "MPI_Barrier"},
		{"most wait for messages", barrier + "MPI_Recv,main MPI_Recv,main ", "", ""},
		{"all wait for messages", "MPI_Send,main MPI_Recv,main ", "", ""},
		{"in two collectives", "MPI_Allreduce,main " + barrier, "", ""},
		{"in a collective and two calls", barrier + "MPI_Recv,main MPI_Send,main " + barrier, "", ""},
		{"the other one polls", "MPI_Iprobe,main " + spin, "", ""},
		{"likewise", "PMPI_Testall,main " + spin, "", ""},
		{"in Fortran", "pmpi_barrier_,MAIN__,main " + spin, "1", "pmpi_barrier_"},
		{"it waits in MPI_Init", "PMPI_Init,main " + spin, "1", "MPI_Init"},
		{"of Open MPI, which jumps out of it", "usleep,ompi_mpi_finalize,main " + spin, "1", "MPI_Finalize"},
		{"all others end", "PMPI_Finalize,main MPI_Recv,main PMPI_Finalize,main", "1", "MPI_Finalize"},
		{"by gdb", "gdb:MPI_Barrier,main " + spin, "1", "MPI_Barrier"},
		{"of torch over Gloo", "eu-stack:pthread_cond_wait,c10d::Work::wait(int),main " + spin, "1", "c10d::Work::wait(int)"},
		{"of Python without symbols, which calls libraries by names", "PMPI_Recv,??,_PyEval_EvalFrameDefault,Py_RunMain,Py_BytesMain PyUnicode_RichCompare,??,_PyEval_EvalFrameDefault,Py_RunMain,Py_BytesMain", "1", "MPI_Recv"},
		{"by the kernel", barrier + "kernel:futex,main " + barrier, "", ""},
		{"of Python", barrier + "py-spy:step,main " + barrier, "", ""},
		{"of Python, and by its own lines", "eu-stack·and·py-spy:sched_yield,PMPI_Recv,step·(a.py:3),Py_BytesMain eu-stack·and·py-spy:mpi_check·(a.py:9),Py_BytesMain", "1", "MPI_Recv"},
		{"one waits for its GPU, which may wait for others", "c10d::TCPStore::wait,Py_BytesMain cuStreamSynchronize,cudaStreamSynchronize,at::native::item,Py_BytesMain", "", ""},
		{"one function has no name: it may be of MPI", barrier + "poll,??,main " + barrier, "", ""},
		{"the innermost alone has none: a stub", barrier + "??,spin,main " + barrier, "1", "MPI_Barrier"},
		{"one below MPI's has none", "??,PMPI_Barrier,main " + spin, "1", "MPI_Barrier"},
		{"one is cut", barrier + "spin " + barrier, "", ""},
		{"one is too long", barrier + strings.Repeat("f,", 63) + "main " + barrier, "", ""},
	} {
		if o := ByStacks(placed(tt.stacks), onHosts(idset.Range(0, 9), 100)); o.IDs.String() != tt.ids || o.Call != tt.call && tt.ids != "" {
			t.Errorf("%s: %s, and others in %q", tt.name, o.IDs, o.Call)
		}
	}
}

// Ranks that are all in one call accuse nobody for certain.
func TestAlike(t *testing.T) {
	const finalize, spin = "poll,PMPI_Finalize,main ", "spin,main "
	for _, tt := range []struct {
		name, stacks string
		alike        bool
	}{
		{"all in one call", finalize + finalize + finalize, true},
		{"one computes", finalize + spin + finalize, false},
		{"one is in another call", finalize + "poll,PMPI_Barrier,main ", false},
		{"one was not seen whole", finalize + "kernel:futex ", false},
		{"one alone", finalize, false},
		{"nobody", "", false},
	} {
		if got := Alike(placed(tt.stacks)); got != tt.alike {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// A run in which some use CPU is ended only where their stacks say that they wait, or where those that idle are the few for whom all
// others wait.
func TestDoubtBy(t *testing.T) {
	const barrier, spin, kernel = "poll,PMPI_Barrier,main ", "spin,main ", "kernel:futex "
	n := Names{Rank: func(id int) string { return fmt.Sprintf("rank %d", id) }, Ranks: func(ids idset.Set) string { return "ranks " + ids.String() }}
	for _, tt := range []struct{ name, busy, idle, stacks, want string }{
		{"three wait in a barrier for one that idles", "0-2", "3", barrier + barrier + barrier + kernel, ""},
		{"one of them computes", "0-2", "3", barrier + spin + barrier + kernel, "rank 1 uses CPU and is in the program's own code: it may compute"},
		{"two do", "0-2", "3", spin + spin + barrier + kernel, "ranks 0-1 use CPU and are in the program's own code: they may compute"},
		{"one asks again and again", "0-2", "3", barrier + "MPI_Test,main " + barrier + kernel, "rank 1 uses CPU and is in the program's own code: it may compute"},
		{"nothing shows of the many", "0-2", "3", kernel + kernel + kernel + kernel, ""},
		{"nor of the one that others wait for in a socket", "0", "1-3", kernel + kernel + kernel + kernel, "whether rank 0 computes or waits for a message could not be seen (mpiup help hangs)"},
		{"which was not looked at", "0", "1-3", "", "whether rank 0 computes or waits for a message could not be seen (mpiup help hangs)"},
		{"it computes", "0", "1-3", spin, "rank 0 uses CPU and is in the program's own code: it may compute"},
		{"it waits", "0", "1-3", barrier, ""},
	} {
		busy, _ := idset.Parse(tt.busy)
		idle, _ := idset.Parse(tt.idle)
		if got := (Stall{Busy: busy, Idle: idle}).DoubtBy(placed(tt.stacks), n); got != tt.want {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
}

// The second look has to say the same of the same ones.
func TestTwoLooksAgree(t *testing.T) {
	first := Outside{IDs: idset.Of(1), Call: "MPI_Barrier"}
	for _, tt := range []struct {
		then Outside
		want string
	}{{first, "1"}, {Outside{}, ""}, {Outside{IDs: idset.Of(2), Call: "MPI_Barrier"}, ""}, {Outside{IDs: idset.Of(1), Call: "MPI_Recv"}, ""}, {Outside{IDs: idset.Of(1, 2), Call: "MPI_Barrier"}, ""}} {
		if b := first.Blame(tt.then); b.IDs().String() != tt.want || b.Sure {
			t.Errorf("%+v after %+v: %+v", tt.then, first, b)
		}
	}
	var all []Stack
	for id := range 100 {
		all = append(all, Stack{ID: id})
	}
	if again := first.Again(all); again.String() != "0-8" {
		t.Errorf("the second look is at %s", again)
	}
	if first.IDs.String() != "1" {
		t.Error("it changes the first")
	}
}

// The odd ones come first, of each host as many as there is time for, and others evenly.
func TestWhoIsLookedAt(t *testing.T) {
	for _, tt := range []struct {
		name  string
		odd   idset.Set
		ranks int
		hosts int
		want  string
		all   bool
	}{
		{"all", idset.Set{}, 4, 2, "0-3", true},
		{"as many as a host can", idset.Set{}, 20, 1, "0-15", false},
		{"the odd ones first", idset.Of(18, 19), 20, 1, "0-5,18-19", false},
		{"very many", idset.Of(9_999), 10_000, 5_000, "", false},
	} {
		ids, all := LookAt(tt.odd, idset.Range(0, tt.ranks-1), func(id int) int { return id % tt.hosts })
		if tt.want != "" && ids.String() != tt.want || all != tt.all || ids.Len() > MaxLook || !ids.Covers(tt.odd) || tt.want == "" && ids.Len() < MaxLook/2 {
			t.Errorf("%s: %s, all %v", tt.name, ids, all)
		}
	}
}

func TestTelling(t *testing.T) {
	for frames, want := range map[string]string{"a,b,c,d": "a,b,c", "clock_nanosleep,nanosleep,sleep,load,main": "sleep,load,main", "__read,main": "__read,main", "": ""} {
		if got := Telling(strings.Split(frames, ",")); !slices.Equal(got, strings.Split(want, ",")) {
			t.Errorf("%s: %v", frames, got)
		}
	}
	var many []Stack
	for i := range 20 {
		many = append(many, placed(fmt.Sprint("f", i, ",main"))...)
	}
	if groups, more := Grouped(many); len(groups) != 8 || more != 12 {
		t.Errorf("%d groups, and %d more", len(groups), more)
	}
}

// All that are absent are named, as a set where they are many.
func TestAllAbsentAreNamed(t *testing.T) {
	var away []Away
	for rank := 3; rank < 20; rank++ {
		away = append(away, Away{Rank: rank, Own: true, Why: "it has not called nccl:all_reduce number 4"})
	}
	n := Names{Rank: func(id int) string { return fmt.Sprintf("rank %d", id) }, Ranks: func(ids idset.Set) string { return "ranks " + ids.String() }}
	b := blameAway(away, nil)
	const want = "ranks 3-19 are the odd ones out: they are absent from a collective; of rank 3: it has not called nccl:all_reduce number 4"
	if lines := b.Lines(n); !b.Sure || len(lines) != 1 || lines[0] != want || b.IDs().String() != "3-19" {
		t.Errorf("%q", lines)
	}
	if lines := blameAway(away[:2], nil).Lines(n); len(lines) != 2 {
		t.Errorf("%q", lines)
	}
}

// Of a program without symbols the C library's function is what tells.
func TestTellingWithoutSymbols(t *testing.T) {
	for frames, want := range map[string]string{"clock_nanosleep,__nanosleep,??,??,??": "__nanosleep", "??,??,??,main": "??", "spin,??,main": "spin,??,main",
		"clock_nanosleep,nanosleep,sleep,load,main": "sleep,load,main"} {
		if got := strings.Join(Telling(strings.Split(frames, ",")), ","); got != want {
			t.Errorf("%s: %s", frames, got)
		}
	}
}

// Of what tools really wrote (agent/trace), rank 1 is named, which sleeps or computes, and where both are is told with the programs' own lines.
// By Python's lines alone nobody is.
func TestRecordedStacks(t *testing.T) {
	text, err := os.ReadFile("../../agent/trace/testdata/stacks/both.tsv")
	if err != nil {
		t.Fatal(err)
	}
	runs := map[string][]Stack{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), "\t")
		s := Stack{Whereabouts: Whereabouts{Host: "w0", Means: cells[1], Frames: strings.Split(cells[3], "|")}}
		s.ID, err = strconv.Atoi(cells[2])
		if s.Rank = uint32(s.ID); err != nil {
			t.Fatal(err)
		}
		runs[cells[0]+", "+cells[1]] = append(runs[cells[0]+", "+cells[1]], s)
	}
	if len(runs) < 6 {
		t.Fatalf("%d runs", len(runs))
	}
	for name, list := range runs {
		o := ByStacks(list, onHosts(idset.Range(0, 1), 2))
		groups, _ := Grouped(list)
		waits, odd := groups[0].Told(), groups[1].Told()
		if odd.Ranks == "0" {
			waits, odd = odd, waits
		}
		if b := o.Blame(o); b.IDs().String() != "1" || len(groups) != 2 || !ofPython(waits.Frames[2]) || strings.Contains(waits.Frames[2], "torch/") ||
			!slices.ContainsFunc(odd.Frames, func(f string) bool { return strings.HasPrefix(f, "load_batch (") || strings.HasPrefix(f, "spin (") }) {
			t.Errorf("%s: %v is named; %s; %s", name, b.IDs(), waits.Sentence(), odd.Sentence())
		}
		for i := range list {
			list[i].Means, list[i].Frames = "py-spy", slices.DeleteFunc(list[i].Frames, func(f string) bool { return !ofPython(f) })
		}
		if o := ByStacks(list, onHosts(idset.Range(0, 1), 2)); !o.IDs.Empty() {
			t.Errorf("%s: %v is named by Python's lines alone", name, o.IDs)
		}
	}
}

// Of torch over Gloo those idle that wait, where MPI's use a CPU: who is named by that alone and is seen to wait is named no more.
func TestBlameThatStacksBelie(t *testing.T) {
	const waits, spins = "futex,c10d::Work::wait,Py_BytesMain ", "spin,main "
	for _, tt := range []struct {
		stacks string
		sure   bool
		want   string
	}{{waits + spins, false, ""}, {waits + spins, true, "0"}, {spins + waits, false, "0"}, {"kernel:futex " + spins, false, "0"}} {
		b := Blame{Odd: []Odd{{IDs: idset.Of(0), Why: "it waits in futex while others use CPU"}}, Sure: tt.sure}
		if got := b.Seen(placed(tt.stacks)).IDs().String(); got != tt.want {
			t.Errorf("%s, sure %v: %q", tt.stacks, tt.sure, got)
		}
	}
}
