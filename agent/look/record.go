package look

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/frameworks"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/visible"
)

// Record is what one process's recorder has of its collectives.
type Record struct {
	frameworks.Flight
	Dump []byte // the file
}

// called is a group as it is read, with its calls in place of its operations.
type called struct {
	frameworks.FlightGroup
	calls []call
}

type call struct {
	frameworks.FlightOp
	entry *pickledDict // that the texts come of, for those that stay
}

// Bounds of a record.
const (
	maxGroups  = 64
	maxOpen    = 4  // operations of a group that have not ended
	maxCalls   = 64 // of a group
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
	r := Record{Flight: frameworks.Flight{Rank: rank}, Dump: dump}
	var groups []called
	members := ranksOf(top, ranks)
	for _, e := range entries.Items[max(0, len(entries.Items)-maxEntries):] {
		if d, ok := e.(*pickledDict); ok && d.Get("is_p2p") != true {
			groups = add(groups, d, members)
		}
	}
	for i := range groups {
		r.Groups = append(r.Groups, groups[i].trimmed())
	}
	for _, name := range slices.Sorted(maps.Keys(members)) { // those it has called nothing in
		if !slices.ContainsFunc(r.Groups, func(g frameworks.FlightGroup) bool { return g.Name == name }) && len(r.Groups) < maxGroups && name != "" {
			r.Groups = append(r.Groups, frameworks.FlightGroup{Name: name, Ranks: members[name]})
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

// add takes an entry, which come in the order in which they were called.
func add(groups []called, e *pickledDict, members map[string]idset.Set) []called {
	seq, ok := number(e, "collective_seq_id", "seq_id")
	if !ok || seq == 0 {
		return groups
	}
	name, what := group(e)
	i := slices.IndexFunc(groups, func(g called) bool { return g.Name == name })
	if i < 0 {
		if len(groups) == maxGroups {
			return groups
		}
		i = len(groups)
		groups = append(groups, called{FlightGroup: frameworks.FlightGroup{Name: name, What: what, Ranks: members[name]}})
	}
	g := &groups[i]
	op := call{FlightOp: frameworks.FlightOp{Seq: seq}, entry: e}
	op.Name, _ = e.Get("profiling_name").(string)
	// Gloo's operations have no state, and are retired when they end, well or not (torch 2.15). NCCL's that are retired and not
	// completed have timed out.
	op.Done = e.Get("state") == "completed" || e.Get("retired") == true && strings.HasPrefix(op.Name, "gloo:")
	g.Last = max(g.Last, seq)
	if at, ok := number(e, "time_created_ns"); ok { // since version 1
		g.call(frameworks.FlightCall{Seq: seq, At: int64(at)})
	}
	switch last := len(g.calls) - 1; {
	case last >= 0 && g.calls[last].Seq == seq: // of one batch
	case op.Done:
		g.calls = append(slices.DeleteFunc(g.calls, func(o call) bool { return o.Done }), op)
	default:
		if open := len(g.calls); open <= maxOpen {
			g.calls = append(g.calls, op)
		}
	}
	return groups
}

// call notes a call. Those of one batch have one number, and the first of them counts.
func (g *called) call(c frameworks.FlightCall) {
	if n := len(g.Calls); n > 0 && c.Seq <= g.Calls[n-1].Seq {
		return
	}
	if len(g.Calls) == maxCalls {
		g.Calls = append(g.Calls[:0], g.Calls[1:]...)
	}
	g.Calls = append(g.Calls, c)
}

// trimmed is what is kept of a group, in the order of the numbers.
func (g *called) trimmed() frameworks.FlightGroup {
	slices.SortFunc(g.calls, func(a, b call) int { return int(int64(a.Seq) - int64(b.Seq)) })
	for _, o := range g.calls[:min(len(g.calls), maxOpen+1)] {
		o.Name, o.Shape, o.Where = clean(o.Name), shape(o.entry), where(o.entry)
		g.Ops = append(g.Ops, o.FlightOp)
	}
	return g.FlightGroup
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
