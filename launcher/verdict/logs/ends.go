package logs

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/pattern"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// fact is a text by which a line names a process, as facts.txt has it.
type fact struct {
	pattern.Hinted
	first, waits, own, self bool
	headed                  bool // lines that begin so have no word of it
}

//go:embed facts.txt
var factsText string

// facts are those of facts.txt, and their words.
var facts, factWords = sync.OnceValue(func() (all []fact) {
	for _, c := range pattern.Rows(factsText, 3) {
		all = append(all, fact{Hinted: pattern.With(c[1], c[2]), first: c[0] == "first" || c[0] == "ours", waits: c[0] == "waits",
			own: c[0] == "ours", self: c[0] == "self", headed: c[1][0] == '^'})
	}
	return all
}), sync.OnceValue(func() *pattern.Words {
	var words []string
	for _, c := range pattern.Rows(factsText, 3) {
		if c[1][0] != '^' {
			words = append(words, strings.ToLower(c[1]))
		}
	}
	return pattern.Looked(words)
})

// names says which process a fact's line names; false: none.
func (f fact) names(text string) (ending, bool) {
	e := ending{rank: -1}
	m := f.Find(text)
	if m == nil {
		return e, false
	}
	for i, name := range f.In(text).SubexpNames() {
		switch name {
		case "rank":
			e.rank = number(m[i])
		case "local", "local0":
			e.local = max(e.local, number(m[i])+1)
		case "host":
			e.host = strings.Trim(m[i], ",.;:()\"'")
		case "pid":
			e.pid = max(number(m[i]), 0)
		}
	}
	return e, true
}

// block is torchrun's list of failures, of which the root cause is the one that counts: others ended after it, most by the launcher.
type block struct {
	at   int // number of its first line; 0: none
	root bool
	part bool // an excerpt, which may lack the root cause
	who  ending
	time string           // of the entry, to the second
	same map[string][]int // ranks by theirs, of those that torchrun does not name first
}

// learn takes what a line says of processes into account.
func (r *Reader) learn(l line) {
	r.enq, r.seq = note(r.enq, enqueued, l), note(r.seq, timedOut, l)
	r.horovod(l)
	r.elastic(l.text)
	if m := numbered().Find(l.text); m != nil {
		p := process{l.who.place(), l.who.pid}
		if pid := number(m[3] + m[6]); pid > 0 {
			p = process{m[4] + m[7], pid}
		}
		r.know(p, number(m[1]+m[2]+m[5]))
	}
	if r.torchs(l.text) {
		return
	}
	none := factWords().First(strings.ToLower(l.text)) < 0
	for _, f := range facts() {
		if none && !f.headed {
			continue
		}
		who, ok := f.names(l.text)
		if !ok || f.own && l.ofRank() {
			continue
		}
		who.pod = l.who.pod
		if r.site.proxies && strings.HasPrefix(l.text, "srun: ") {
			who.rank = -1 // srun's tasks are another launcher's, one a host
		}
		if f.self {
			if who = who.or(l.who); who.rank < 0 {
				continue
			}
		}
		r.names(f, who, l.text)
		return
	}
}

// torchs takes the lines of torchrun's table of failures into account; true: one that names no process.
func (r *Reader) torchs(text string) bool {
	switch {
	case text == "Failures:":
		r.torch = block{at: r.number, who: ending{rank: -1}, same: map[string][]int{}}
		return true
	case strings.HasPrefix(text, "time      : "):
		if r.torch.at == 0 && !r.torch.root { // an excerpt's
			r.torch = block{at: r.number, part: true, who: ending{rank: -1}, same: map[string][]int{}}
		}
		r.torch.time = text
	case strings.HasPrefix(text, "Root Cause (first observed failure)"):
		if r.torch.part { // as before: what stands above is no whole list
			r.torch = block{}
		}
		if at := r.torch.at; at > 0 {
			r.found.takeBack(func(g *finding) bool { return g.file == r.file && g.number > at })
		}
		r.torch = block{root: true, who: ending{rank: -1}, same: r.torch.same}
		return true
	}
	return false
}

// names takes the process that a line names into account, for what it is named.
func (r *Reader) names(f fact, who ending, text string) {
	r.know(process{who.host, who.pid}, who.rank)
	if f.waits {
		r.wait(who.rank)
		for _, m := range others().FindAllStringSubmatch(text, maxFound) {
			for n := range strings.FieldsFuncSeq(m[1], func(c rune) bool { return c < '0' || c > '9' }) {
				r.wait(number(n))
			}
		}
	}
	if r.torch.at > 0 && who.rank >= 0 && len(r.torch.same[r.torch.time]) < maxFound {
		r.torch.same[r.torch.time] = append(r.torch.same[r.torch.time], who.rank)
	}
	if r.torch.root {
		r.torch.who = r.torch.who.or(who)
		who = r.torch.who
		r.named = &who
	} else if f.first && r.named == nil {
		r.named, r.first = &who, lead{by: pattern.Alike(text), at: r.number}
	}
	if !f.waits {
		if r.torch.time != "" && r.at == r.number-1 { // the same entry of the table
			who = who.or(r.recent)
		}
		r.recent, r.at, r.listed = who, r.number, f.first || r.torch.time != ""
		if s, ok := verdict.Recognise(text); !ok || s.Weight() > verdict.Wait { // who waits is not who failed
			r.tell(who, pattern.Alike(text))
		}
	}
}

// horovod takes the lists of ranks that Horovod waits for: "Stalled ranks:", "Missing ranks:", and below a line for each.
func (r *Reader) horovod(l line) {
	if strings.HasSuffix(l.text, "Stalled ranks:") || strings.HasSuffix(l.text, "Missing ranks:") {
		r.stalls = true
		return
	}
	if !r.stalls {
		return
	}
	rank := l.label - 1
	if m := stalledRank().FindStringSubmatch(l.text); m != nil {
		rank = number(m[1])
	}
	if rank < 0 || !strings.Contains(l.text, "[") {
		r.stalls = false
		return
	}
	r.wait(rank)
}

// wait notes a rank that others wait for.
func (r *Reader) wait(rank int) {
	if rank >= 0 && len(r.waits) < maxFound && !slices.Contains(r.waits, rank) {
		r.waits = append(r.waits, rank)
	}
}

// elastic takes what torch's launcher writes of a worker's end as a record, and the number of ranks of the job wherever a line has it.
func (r *Reader) elastic(text string) {
	if m := jobSize().Find(text); m != nil {
		r.size = max(r.size, number(m[1]))
	}
	if m := elasticRank().Find(text); m != nil && len(r.failed) < maxFound {
		r.failed = append(r.failed, number(m[1]))
	}
}

// operation is the number of one that a rank was in. Each group of ranks has its own numbers.
type operation struct {
	group    string
	rank, at int
}

// note takes a rank and the number of its operation. A group that is not the whole job counts its ranks from 0, so that a tag must say which
// rank of the job it was.
func note(list []operation, re func() pattern.Hinted, l line) []operation {
	m := re().Find(l.text)
	if m == nil || len(list) >= maxPIDs {
		return list
	}
	op := operation{m[1], number(m[2]), number(m[3])}
	if l.who.rank >= 0 {
		op.rank = l.who.rank
	} else if op.group != "" && !strings.HasPrefix(op.group, "PG 0 ") && !strings.HasPrefix(op.group, "PG ID 0 ") {
		return list
	}
	return append(list, op)
}

// tell completes findings that came just before. Lines that name several ranks alike tell of none which was first.
func (r *Reader) tell(who ending, by string) {
	for _, f := range r.open {
		switch close := r.number-max(f.number, f.told.at) <= after && f.lane.file == r.file; {
		case close && f.who.rank < 0 && f.who.fits(who) && slices.Contains([]int{-1, who.rank}, f.spoken()) &&
			!(f.crashed() && has(by, "othersCall")):
			f.who, f.told.by, f.told.at = f.who.or(who), by, r.number
			f.told.own = !r.listed && f.who.rank >= 0 && (f.kind == verdict.OutOfMemory || !strings.HasPrefix(by, "srun: "))
		case close && f.told.by == by && who.rank >= 0:
			f.among, f.told.at = f.among.Union(idset.Possible(f.who.rank, who.rank)), r.number
		}
	}
}

func (r *Reader) know(p process, rank int) {
	if p.pid > 0 && rank >= 0 && len(r.pids) < maxPIDs {
		r.pids[p] = rank
		if _, taken := r.pids[process{"", p.pid}]; !taken {
			r.pids[process{"", p.pid}] = rank
		}
	}
}

// looksRaised says that a line is a Python exception's, though its traceback is not there.
func looksRaised(text string) bool { return raisedLine().Match(text) }

// relayed says that an exception only tells of another process's.
func relayed(text string) bool {
	return verdict.Relayed(text) || slices.ContainsFunc(texts("relays"), func(p string) bool { return strings.HasPrefix(text, p) })
}

// warns says that a line calls itself a warning. NCCL's are errors.
func warns(text string) bool {
	return warning().Match(text) && !strings.Contains(text, "NCCL WARN")
}

// complains says that a line tells of an error by its own word: its level, or how it begins.
func complains(text string) bool {
	level, said := stated(text)
	does := level == Error && !strings.HasPrefix(text, "error ") || !said && complaint().Match(text) // "error " begins a sentence, or ends one
	return does && !measured().Match(text) && !has(text, "harmless")                                 // which takes longer
}

// fails says that a line sounds like a failure's, whoever wrote it.
func fails(text string) bool {
	level, ok := stated(text)
	return failure().MatchString(text) &&
		!(ok && level <= Warn || warns(text) || has(text, "harmless") || stackLine().MatchString(text))
}

// mild says that a line which a sign knows tells of no failure by its own word: it is a warning or a note. What a launcher notes of an end, or
// of a signal, is told of whatever its level, and so is who waits.
func mild(text string, s *verdict.Sign) bool {
	if has(text, "harmless") {
		return true
	}
	if has(text, "told") || s.Weight() == verdict.Ending || s.Weight() == verdict.Wait && !s.Likely {
		return false
	}
	level, ok := stated(text)
	return s.Text == "PMIX ERROR: " || warns(text) && !(ok && level == Error) || ok && level <= Info // PMIx's in logs of jobs that go well, too
}
