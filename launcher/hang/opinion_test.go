package hang

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// Five looks say where the named ranks were while most of the others waited, or doubt, where it is improbable that they show so little, or nothing.
func TestOpinions(t *testing.T) {
	const (
		wait  = "poll,PMPI_Allreduce,step,main "
		batch = "eu-stack:clock_nanosleep,nanosleep,read_batch·(loader.c:41),step·(a.c:9),main "
		work  = "eu-stack:multiply·(a.c:3),step·(a.c:8),main "
	)
	five := func(look string) []string { return slices.Repeat([]string{look}, 5) }
	for _, tt := range []struct {
		name  string
		named []int
		share float64
		looks []string
		want  string
	}{
		{"it is elsewhere in each", []int{1}, 0.5, five(wait + batch + wait),
			"in 5 of 5 looks within 40 s it was in read_batch (loader.c:41), called by step (a.c:9), called by main, the others in MPI_Allreduce"},
		{"in four, at several lines of a function", []int{1}, 0.5, []string{wait + batch + wait, wait + work + wait, wait + "eu-stack:multiply·(a.c:4),step·(a.c:8),main " + wait, wait + wait + wait, wait + work + wait},
			"in 4 of 5 looks within 40 s it was in step, called by main, the others in MPI_Allreduce"},
		{"in three, of a name for half of the time", []int{1}, 0.5, append(five(wait + batch + wait)[:3], five(work + work + work)[:2]...), ""},
		{"each time in another function of main", []int{1}, 0.9, []string{wait + "a,main " + wait, wait + "b,main " + wait, wait + "c,main " + wait, wait + "d,main " + wait, wait + "e,main " + wait}, ""},
		{"the others in several calls", []int{1}, 0.5, append(five(wait + batch + wait)[1:], "PMPI_Barrier,main "+batch+"MPI_Barrier,main "),
			"in 5 of 5 looks within 40 s it was in read_batch (loader.c:41), called by step (a.c:9), called by main, the others in calls of MPI"},
		{"it waits for a message", []int{0}, 0.5, five("progress,MPI_Recv,read_batch,step,main " + wait + wait),
			"in 5 of 5 looks within 40 s it was in MPI_Recv, called by read_batch, called by step, the others in MPI_Allreduce"},
		{"two are alike", []int{0, 1}, 0.5, five(work + work + wait + wait + wait),
			"in 5 of 5 looks within 40 s they were in multiply (a.c:3), called by step (a.c:8), called by main, the others in MPI_Allreduce"},
		{"one of two waits with the others", []int{0, 1}, 0.7, five(work + wait + wait + wait + wait),
			"their stacks show nothing that differs: in 0 of 5 looks within 40 s they were elsewhere than the others"},
		{"all work each time, of a name for half of the time", []int{1}, 0.5, five(work + work + work), ""},
		{"likewise, for most of it", []int{1}, 0.7, five(work + work + work), "its stacks show nothing that differs: in 0 of 5 looks within 40 s it was elsewhere than the others"},
		{"it waits as the others do, of a name for all of the time", []int{1}, 1, five(wait + wait + wait),
			"its stacks show nothing that differs: in 0 of 5 looks within 40 s it was elsewhere than the others"},
		{"but once, on a busy machine", []int{1}, 1, append(five(wait + wait + wait)[1:], wait+batch+wait), ""},
		{"half of the others wait", []int{0}, 0.2, five(work + wait + work), ""},
		{"the others ask again and again", []int{0}, 0.2, five(work + "MPI_Test,main MPI_Test,main "), ""},
		{"once its stack is not whole", []int{1}, 0.5, append([]string{wait + batch + wait, wait + "eu-stack:poll " + wait}, five(wait + batch + wait)[:3]...),
			"in 4 of 4 looks within 40 s it was in read_batch (loader.c:41), called by step (a.c:9), called by main, the others in MPI_Allreduce"},
		{"functions have no names", []int{1}, 0.5, five(wait + "??,main " + wait), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var o Opinions
			got := ""
			now := time.Second
			for i, look := range tt.looks {
				if !o.Due(now, 10*time.Second, tt.named, tt.share) || o.Due(now+9*time.Second, 10*time.Second, tt.named, tt.share) {
					t.Fatalf("look %d is not due, or two are", i)
				}
				if got != "" {
					t.Fatalf("before look %d it says %s", i, got)
				}
				o := o.See(now, placed(look), true)
				if got = o.Says; o.Doubts != strings.Contains(got, "nothing that differs") {
					t.Errorf("%+v", o)
				}
				now += 10 * time.Second
			}
			if got != tt.want || o.Due(now, 10*time.Second, tt.named, tt.share) {
				t.Errorf("it says %q, want %q, once", got, tt.want)
			}
		})
	}
}

// Looks are few: not at ranks whom no tool may look into, not where one takes too long, once for each rank, and in a run for three names at most.
func TestOpinionsAreFew(t *testing.T) {
	const look = "MPI_Barrier,main spin,step,main MPI_Barrier,main"
	every := 10 * time.Second
	for name, see := range map[string]func(*Opinions){
		"by the kernel alone": func(o *Opinions) { o.See(0, placed(strings.ReplaceAll(look, "spin", "kernel:spin")), true) },
		"nobody looked":       func(o *Opinions) { o.See(0, nil, true) },
		"a host is late":      func(o *Opinions) { o.See(0, placed(look), false) },
	} {
		var o Opinions
		if !o.Due(0, every, []int{1}, 0.5) {
			t.Fatal("no look is due")
		}
		if see(&o); o.Due(time.Minute, every, []int{1}, 0.5) {
			t.Errorf("%s: there is another look", name)
		}
	}
	var o Opinions
	for i, tt := range []struct {
		named []int
		due   bool
	}{{nil, false}, {[]int{1}, true}, {nil, false}, {[]int{1}, true}, {[]int{2}, true}, {[]int{1}, false}, {[]int{1, 2}, false}, {[]int{3}, true}, {[]int{4}, false}} {
		if due := o.Due(time.Duration(i)*every, every, tt.named, 0.5); due != tt.due {
			t.Errorf("%d: a look at %v is due: %v", i, tt.named, due)
		}
	}
}
