package jobdata

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// applyInfo takes one attribute of a spawn into the program (pmix_common.h, "spawn attributes").
// What is not known is left out, unless it is marked as required.
func applyInfo(p *job.SpawnProgram, env *envList, i bfrops.Info) error {
	text := i.Value.Text()
	switch i.Key {
	case "pmix.host":
		p.Hosts = job.List(text)
	case "pmix.hostfile":
		p.Hostfile = text
	case "pmix.addhost":
		p.AddHosts = job.List(text)
	case "pmix.addhostfile":
		p.AddHostfile = text
	case "pmix.wdir":
		p.Dir = text
	case "pmix.mapby":
		return mapBy(p, text, i)
	case "pmix.ppr": // "2:n" of Open MPI's info key npernode
		return mapBy(p, "ppr:"+text, i)
	case "pmix.envar.set", "pmix.envar.add", "pmix.envar.prepnd", "pmix.envar.appnd", "pmix.envar.first":
		v, ok := i.Value.Data.(bfrops.Envar)
		if !ok || v.Name == "" || strings.Contains(v.Name, "=") {
			return fmt.Errorf("its attribute %s is not a variable", i.Key)
		}
		env.change(i.Key, v)
	case "pmix.envar.unset":
		env.unset(text)
	default:
		if i.Flags&bfrops.InfoRequired != 0 && !harmless[i.Key] {
			return fmt.Errorf("its attribute %.100q is marked as required and not supported; take it out of the MPI_Info", i.Key)
		}
	}
	return nil
}

// harmless is what asks for nothing, or for what happens anyway.
var harmless = map[string]bool{
	"pmix.pers": true, "pmix.wdir.user": true, "pmix.timeout": true, "pmix.req.client": true,
	"pmix.fwd.stdout": true, "pmix.fwd.stderr": true, "pmix.setup.env": true, "pmix.noteend": true,
}

// mapBy reads "slot", "node", "ppr:N:node", with modifiers behind it ("node:oversubscribe"), which
// are left out. Nearer objects than a host make no difference to who is where.
func mapBy(p *job.SpawnProgram, text string, i bfrops.Info) error {
	fields := strings.Split(strings.ToLower(text), ":")
	switch fields[0] {
	case "":
	case "ppr":
		n := 0
		if len(fields) >= 3 {
			n, _ = strconv.Atoi(fields[1])
		}
		if n < 1 || n > job.MaxSpawnProcs || fields[2] != "n" && fields[2] != "node" {
			return fmt.Errorf("it is to be mapped by %.100q, and only ppr:N:node is supported", text)
		}
		p.PerHost, p.MapBy = n, fmt.Sprintf("ppr:%d:node", n)
	case "slot", "node":
		p.MapBy = fields[0]
	default:
		if i.Flags&bfrops.InfoRequired != 0 {
			return fmt.Errorf("it is to be mapped by %.100q; slot, node and ppr:N:node are supported", text)
		}
	}
	return nil
}

// envList is the variables that a program is given over its host's, in the order of their setting.
type envList struct {
	getenv func(string) string // what it has without
	order  []string
	values map[string]string
}

func (e *envList) set(name, value string) {
	if _, ok := e.values[name]; !ok {
		e.order = append(e.order, name)
	}
	if e.values == nil {
		e.values = map[string]string{}
	}
	e.values[name] = value
}

func (e *envList) unset(name string) {
	delete(e.values, name)
	e.order = slices.DeleteFunc(e.order, func(n string) bool { return n == name })
}

func (e *envList) get(name string) string {
	if v, ok := e.values[name]; ok {
		return v
	}
	return e.getenv(name)
}

// change does what the attribute says of a variable.
func (e *envList) change(how string, v bfrops.Envar) {
	old, sep := e.get(v.Name), string(rune(v.Separator))
	switch {
	case how == "pmix.envar.add":
		if _, ok := e.values[v.Name]; ok || old != "" {
			return
		}
	case how == "pmix.envar.set" || old == "":
	case how == "pmix.envar.appnd":
		v.Value = old + sep + v.Value
	default: // first: prepended, and nowhere else
		if how == "pmix.envar.first" {
			old = strings.Join(slices.DeleteFunc(strings.Split(old, sep), func(s string) bool { return s == v.Value }), sep)
		}
		v.Value += sep + old
	}
	e.set(v.Name, v.Value)
}

func (e *envList) list() []string {
	out := make([]string, 0, len(e.order))
	for _, name := range e.order {
		out = append(out, name+"="+e.values[name])
	}
	return out
}

// Attributes are those that Request knows, as clients ask for them (PMIX_QUERY_SPAWN_SUPPORT).
const Attributes = "pmix.host,pmix.hostfile,pmix.addhost,pmix.addhostfile,pmix.wdir,pmix.mapby,pmix.ppr," +
	"pmix.envar.set,pmix.envar.add,pmix.envar.unset,pmix.envar.prepnd,pmix.envar.appnd,pmix.envar.first"
