package look

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/visible"
)

// Record is what one process's recorder has of its collectives.
type Record struct {
	Rank   int // torch's
	Groups []Group
	Dump   []byte // the file
}

// Group is one process group.
type Group struct {
	Name, What string
	Ranks      idset.Set // torch's; empty: unknown
	Last       uint64    // the number of the last collective that the process called
	Ops        []Op      // the last that has ended, and the first that have not
}

// Op is one collective.
type Op struct {
	Seq   uint64
	Name  string // "nccl:all_reduce"
	Shape string // of what goes in: "[[8, 2]] Float"
	Done  bool
	Where string // the innermost line of the program: "train.py:31 step"

	entry *pickledDict // that the texts come of, for those that stay
}

// Bounds of a record.
const (
	maxGroups  = 64
	maxOpen    = 4 // operations of a group that have not ended
	maxText    = 120
	maxEntries = 1 << 16 // the last ones; ranks are told to keep 2000
	maxNamed   = 4096    // groups whose members are named
	maxMembers = 1 << 20 // bytes of all lists of members together
	maxPath    = 4096    // bytes, PATH_MAX
)

// parseRecord reads a dump of a job whose ranks are below ranks. Versions 1 (torch 2.2) to 2.10 (torch 2.15) were compared.
func parseRecord(rank, ranks int, dump []byte) (Record, error) {
	v, err := unpickle(dump)
	if err != nil {
		return Record{}, err
	}
	top, _ := v.(*pickledDict)
	entries, ok := top.Get("entries").(*pickledList)
	if !ok {
		return Record{}, fmt.Errorf("no list of entries")
	}
	r := Record{Rank: rank, Dump: dump}
	members := ranksOf(top, ranks)
	for _, e := range entries.Items[max(0, len(entries.Items)-maxEntries):] {
		if d, ok := e.(*pickledDict); ok && d.Get("is_p2p") != true {
			r.add(d, members)
		}
	}
	for i := range r.Groups {
		r.Groups[i].trim()
	}
	for _, name := range slices.Sorted(maps.Keys(members)) { // those it has called nothing in
		if !slices.ContainsFunc(r.Groups, func(g Group) bool { return g.Name == name }) && len(r.Groups) < maxGroups && name != "" {
			r.Groups = append(r.Groups, Group{Name: name, Ranks: members[name]})
		}
	}
	return r, nil
}

// ranksOf are the members of process groups, by name, as far as they are bounded: one text may be named many times.
func ranksOf(top *pickledDict, ranks int) map[string]idset.Set {
	members := map[string]idset.Set{}
	config, _ := top.Get("pg_config").(*pickledDict)
	if config == nil || len(config.Of) > maxNamed {
		return members
	}
	room := maxMembers
	for key, v := range config.Of {
		name, _ := key.(string)
		info, _ := v.(*pickledDict)
		list, _ := info.Get("ranks").(string)
		if room -= len(list); room < 0 || len(members) == maxGroups {
			break
		}
		var ids idset.Set
		for text := range strings.SplitSeq(strings.Trim(list, "[] "), ",") {
			if n, err := strconv.Atoi(strings.TrimSpace(text)); err == nil && n >= 0 && n < ranks {
				ids.Add(n)
			}
		}
		members[clean(name)] = ids
	}
	return members
}

// bytes is how much memory the launcher takes it for, which counts as much against this host.
func (r *Record) bytes() int {
	const entry = 64
	n := entry
	for _, g := range r.Groups {
		n += entry + len(g.Name) + len(g.What) + (g.Ranks.Last()+8)/8
		for _, o := range g.Ops {
			n += entry + len(o.Name) + len(o.Shape) + len(o.Where)
		}
	}
	return n
}

// add takes an entry, which come in the order in which they were called.
func (r *Record) add(e *pickledDict, members map[string]idset.Set) {
	seq, ok := number(e, "collective_seq_id", "seq_id")
	if !ok || seq == 0 {
		return
	}
	name, what := group(e)
	i := slices.IndexFunc(r.Groups, func(g Group) bool { return g.Name == name })
	if i < 0 {
		if len(r.Groups) == maxGroups {
			return
		}
		i = len(r.Groups)
		r.Groups = append(r.Groups, Group{Name: name, What: what, Ranks: members[name]})
	}
	g := &r.Groups[i]
	op := Op{Seq: seq, entry: e}
	op.Name, _ = e.Get("profiling_name").(string)
	// Gloo's operations have no state, and are retired when they end, well or not (torch 2.15). NCCL's that are retired and not
	// completed have timed out.
	op.Done = e.Get("state") == "completed" || e.Get("retired") == true && strings.HasPrefix(op.Name, "gloo:")
	g.Last = max(g.Last, seq)
	switch last := len(g.Ops) - 1; {
	case last >= 0 && g.Ops[last].Seq == seq: // of one batch
	case op.Done:
		g.Ops = append(slices.DeleteFunc(g.Ops, func(o Op) bool { return o.Done }), op)
	default:
		if open := len(g.Ops); open <= maxOpen {
			g.Ops = append(g.Ops, op)
		}
	}
}

// trim bounds what is kept of a group, in the order of the numbers.
func (g *Group) trim() {
	slices.SortFunc(g.Ops, func(a, b Op) int { return int(int64(a.Seq) - int64(b.Seq)) })
	g.Ops = g.Ops[:min(len(g.Ops), maxOpen+1)]
	for i := range g.Ops {
		o := &g.Ops[i]
		o.Name, o.Shape, o.Where, o.entry = clean(o.Name), shape(o.entry), where(o.entry), nil
	}
}

// group is an entry's process group: a name and a description since torch 2.4, a name or number before.
func group(e *pickledDict) (name, what string) {
	switch g := e.Get("process_group").(type) {
	case *pickledList:
		if len(g.Items) > 0 {
			name, _ = g.Items[0].(string)
		}
		if len(g.Items) > 1 {
			what, _ = g.Items[1].(string)
		}
	case string:
		name = g
	default:
		n, _ := number(e, "pg_id")
		name = strconv.FormatUint(n, 10)
	}
	if what == "undefined" {
		what = ""
	}
	return clean(name), clean(what)
}

func number(e *pickledDict, keys ...string) (uint64, bool) {
	for _, k := range keys {
		if n, ok := e.Get(k).(int64); ok && n >= 0 {
			return uint64(n), true
		}
	}
	return 0, false
}

// shape is the sizes and types of what goes in.
func shape(e *pickledDict) string {
	var parts []string
	sizes, _ := e.Get("input_sizes").(*pickledList)
	types, _ := e.Get("input_dtypes").(*pickledList)
	const most = 4
	for i, s := range items(sizes, most) {
		dims, _ := s.(*pickledList)
		var text []string
		for _, n := range items(dims, 8) {
			if n, ok := n.(int64); ok {
				text = append(text, strconv.FormatInt(n, 10))
			}
		}
		part := "[" + strings.Join(text, ", ") + "]"
		if t := items(types, most); i < len(t) {
			name, _ := t[i].(string)
			part += " " + name[:min(len(name), maxText)]
		}
		parts = append(parts, part)
	}
	return clean(strings.Join(parts, ", "))
}

func items(l *pickledList, most int) []any {
	if l == nil {
		return nil
	}
	return l.Items[:min(len(l.Items), most)]
}

// where is the innermost frame that is not torch's own.
func where(e *pickledDict) string {
	frames, _ := e.Get("frames").(*pickledList)
	for _, f := range items(frames, 64) {
		d, _ := f.(*pickledDict)
		file, _ := d.Get("filename").(string)
		if file == "" || len(file) > maxPath || strings.Contains(file, "/torch/") || strings.HasPrefix(file, "??") {
			continue
		}
		name, _ := d.Get("name").(string)
		line, _ := number(d, "line")
		file = file[strings.LastIndexByte(file, '/')+1:]
		return clean(fmt.Sprintf("%s:%d %s", file[:min(len(file), maxText)], line, name[:min(len(name), maxText)]))
	}
	return ""
}

// clean is a text of a stranger's in one short line.
func clean(s string) string { return visible.Line(s[:min(len(s), maxText)]) }
