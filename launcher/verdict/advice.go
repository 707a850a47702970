package verdict

import (
	"slices"
	"strings"
	"sync"

	"github.com/mpiup/mpiup/docs"
	"github.com/mpiup/mpiup/internal/pattern"
)

// when is advice for failures of a kind whose evidence has one of the words.
type when struct {
	words []string
	do    string
	order string
}

// The orders of advice by words.
const (
	orderFirst = "first" // it is likelier to help than what helps in all failures of the kind
	orderLast  = "last"  // less so
	orderAlone = "alone" // and the rest does not help at all
)

// whens are those, by kind, of docs/data/advice.tsv; About.Do is what helps in all of its failures.
var whens = sync.OnceValue(func() map[Kind][]when {
	all := map[Kind][]when{}
	for line := range strings.Lines(docs.Advice) {
		if cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t"); len(cells) == 4 {
			w := when{words: strings.Split(cells[1], ", "), do: cells[2], order: cells[3]}
			all[Kind(cells[0])] = append(all[Kind(cells[0])], w)
		}
	}
	return all
})

// Do is what to do about a kind, by what is known of the failure, the likeliest to help first. bare says that no host is a pod.
func Do(k Kind, evidence string, bare bool) (list []string) {
	lower := strings.ToLower(evidence)
	rest := Of(k).Do
	var last []string
	for _, w := range whens()[k] {
		switch {
		case !slices.ContainsFunc(w.words, func(word string) bool { return strings.Contains(lower, strings.ToLower(word)) }):
		case w.order == orderLast:
			last = append(last, w.do)
		default:
			list = append(list, w.do)
			if w.order == orderAlone {
				rest = nil
			}
		}
	}
	list = slices.Concat(list, rest, last)
	if bare {
		list = slices.DeleteFunc(list, ForPods)
	}
	return list
}

// ForPods says that advice is for who runs in Kubernetes or in a container.
func ForPods(do string) bool {
	return slices.ContainsFunc([]string{"kubectl", "kubelet", "resources.limits", "emptyDir", "nodeSelector", "ephemeral-storage", "podPidsLimit", "IPC_LOCK", "pod ", "pods", "Pod", "publishNotReady",
		"terminationGrace", "container", "Kubernetes"}, func(w string) bool { return strings.Contains(do, w) })
}

// Advice is Do as a run says it.
func Advice(k Kind, evidence string, bare bool) (list []string) {
	for _, do := range Do(k, evidence, bare) {
		list = append(list, plain(do))
	}
	return list
}

// Advises says that a line of a run's verdict (Lines) is about what to do.
func Advises(line string) bool {
	is := func(do string) bool { return line == plain(do) }
	for _, a := range Kinds {
		if slices.ContainsFunc(a.Do, is) || slices.ContainsFunc(whens()[a.Kind], func(w when) bool { return is(w.do) }) {
			return true
		}
	}
	return advising().MatchString(line) || line == WriteHint || line == adviceNoneLost || line == crashHint || line == dumpedHint || line == crashedHint
}

// advising is how hints begin (Fault.hint, rankHint).
var advising = pattern.Of(`^(?:see |give |look |run |let |call |nothing was started: build |set |use |raise |this is a fault of mpiup|this launcher was replaced|` +
	`the code is the program's own: |the program ended the job itself|its MPI library ended the job, |the signal did not come from mpiup: |something on \S+ killed it; |` +
	`if the program is a shell script, |its library must |lines that it had not flushed |its agent got SIGTERM|to keep other jobs |MPI ends by |the ranks of an MPI program start together: )|^kubectl describe pod `)
