package mixture

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/job"
)

// Verdict is how well libraries go together.
type Verdict int

const (
	Fine     Verdict = iota
	Doubtful         // nobody knows, or one of them is a guess
	Hopeless         // their ranks hang, crash or fail in MPI_Init
)

// together judges two libraries by name: "Open MPI 4.1.4", "MPICH 4.3.2". What is known was tried
// (docs/tested.md, "Two libraries in one job"), on one host and on two:
//
//	Open MPI, MPICH, Intel MPI         none with another
//	Open MPI 4.1, 5.0                  not with each other; 4.1.4 with 4.1.8, 5.0.8 with 5.0.11
//	MPICH 4.0, 4.1, 4.2, 4.3, 5.0      not with each other; 4.3.1 with 4.3.2, 5.0.0 with 5.0.1 and that with 5.0.2
//	MPICH 4.0.2 and 4.0.3              not, of two makers: network modules differ, which cannot be seen
//	Intel MPI 2021.18 and 2021.19      on one host, not on two
func together(a, b string) Verdict {
	fa, va := split(a)
	fb, vb := split(b)
	switch {
	case fa != fb:
		return Hopeless
	case va == vb:
		return Fine
	case va == "" || vb == "":
		return Doubtful
	case fa == "Open MPI":
		return sameUpTo(1, va, vb)
	case fa == "MPICH":
		return sameUpTo(2, va, vb)
	}
	return Doubtful
}

// sameUpTo judges versions whose first n numbers must be the same.
func sameUpTo(n int, a, b string) Verdict {
	x, y := strings.SplitN(a, ".", n+1), strings.SplitN(b, ".", n+1)
	if len(x) < n || len(y) < n || !slices.Equal(x[:n], y[:n]) {
		return Hopeless
	}
	return Doubtful
}

// split takes "Open MPI 4.1.4" apart; a library's path is no part of it.
func split(library string) (family, version string) {
	library, _, _ = strings.Cut(library, " (")
	i := strings.LastIndexByte(library, ' ')
	if i < 0 || i+1 == len(library) || library[i+1] < '0' || library[i+1] > '9' {
		return library, ""
	}
	return library[:i], library[i+1:]
}

// maxKinds bounds what is compared with each other; a job has two or three.
const maxKinds = 32

// Judge says whether the ranks of all programs can talk to each other, and to those of the job that spawned theirs (nil: none did), and
// what is in the way: a sentence without its end. A program that shows no library is compared with itself on other hosts only.
func (j *Job) Judge(parent *Job) (Verdict, string) {
	kinds := j.kinds()
	worst := Fine
	for i, a := range kinds {
		for _, b := range kinds[:i] {
			worst = max(worst, compare(a, b))
		}
	}
	var parents []*Answer // that do not go with one of ours
	if parent != nil {
		for _, p := range parent.kinds() {
			bad := Fine
			for _, k := range kinds {
				if p.Library != "" && k.Library != "" {
					bad = max(bad, compare(p, k))
				}
			}
			if worst = max(worst, bad); bad != Fine {
				parents = append(parents, p)
			}
		}
	}
	if worst == Fine {
		return Fine, ""
	}
	text := j.list(kinds, worst)
	if beside := parent.list(parents, worst); beside != "" {
		text += "; those that spawned them, " + beside
	}
	return worst, text
}

// list names kinds of a job: of those that cannot talk to each other the ones that are sure.
func (j *Job) list(kinds []*Answer, worst Verdict) string {
	kinds = slices.DeleteFunc(kinds, func(k *Answer) bool { return worst == Hopeless && !k.Sure })
	const most = 4
	var parts []string
	for _, k := range kinds[:min(len(kinds), most)] {
		library := strings.TrimSuffix(k.Library, " ")
		if library == "" {
			library = "no MPI library found"
		}
		program := ""
		if len(j.programs) > 1 {
			program = " in " + j.programs[k.App]
		}
		parts = append(parts, fmt.Sprintf("%s%s on %s (%s)", library, program, hostNames(k.Hosts), k.Protocol))
	}
	if n := len(kinds) - most; n > 0 {
		parts = append(parts, fmt.Sprintf("%d more", n))
	}
	return strings.Join(parts, ", ")
}

// compare judges two kinds.
func compare(a, b *Answer) Verdict {
	if a.Library == "" || b.Library == "" {
		if a.App != b.App {
			return Fine
		}
		return Doubtful
	}
	v := together(a.Library, b.Library)
	if v == Hopeless && !(a.Sure && b.Sure) || v == Fine && a.Protocol != b.Protocol {
		return Doubtful
	}
	return v
}

// kinds are the answers by library and protocol, in the order of programs and hosts, whoever answered first. Where a
// library lies is no difference.
func (j *Job) kinds() (kinds []*Answer) {
	for _, a := range j.answers {
		family, version := split(a.Library)
		name := strings.TrimSpace(family + " " + version)
		i := slices.IndexFunc(kinds, func(k *Answer) bool {
			return k.App == a.App && k.Protocol == a.Protocol && k.Sure == a.Sure && k.Library == name
		})
		switch {
		case i >= 0:
			kinds[i].Hosts = slices.Concat(kinds[i].Hosts, a.Hosts)
		case len(kinds) < maxKinds:
			kinds = append(kinds, &Answer{App: a.App, Protocol: a.Protocol, Library: name, Sure: a.Sure, Hosts: a.Hosts})
		}
	}
	first := func(k *Answer) int { // k has a host
		return slices.MinFunc(k.Hosts, func(x, y Host) int { return cmp.Compare(x.Index, y.Index) }).Index
	}
	slices.SortFunc(kinds, func(x, y *Answer) int { return cmp.Or(cmp.Compare(x.App, y.App), cmp.Compare(first(x), first(y))) })
	return kinds
}

// Advice is what to do where a library did not take what was offered.
func Advice(library string, offered job.Protocol) string {
	openMPI := strings.HasPrefix(library, "Open MPI")
	switch {
	case openMPI && offered != job.PMIx:
		return "Open MPI needs --mpi pmix"
	case openMPI:
		return "see whether a wrapper takes PMIX_* or FLUX_JOB_ID out of their environment"
	case offered == job.PMIx:
		return "try --mpi pmi1"
	case offered == job.PMI1, offered == job.PMI2:
		return "see whether a wrapper takes PMI_* out of their environment; try --mpi pmi-port if it closes descriptors, --mpi pmix if the library was " +
			"built for PMIx only"
	}
	return fmt.Sprintf("try another protocol than %s with --mpi", offered)
}
