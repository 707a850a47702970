package pmix

import (
	"maps"
	"slices"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// maxKnownGroups bounds the groups that queries are told of.
const maxKnownGroups = 1024

// knownGroups are those that members of this host have constructed and not destructed, by name.
type knownGroups map[string]*knownGroup

type knownGroup struct {
	all party
	in  map[int]bool // ids of this host's members that are in it
}

// joined notes that a process has constructed a group; of a name that was used for others, the last
// group counts.
func (s *Server) joined(name string, all party, id int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.known[name]
	if g == nil || !g.all.set().Equal(all.set()) {
		if g == nil && len(s.known) >= maxKnownGroups {
			return
		}
		g = &knownGroup{all: all, in: map[int]bool{}}
		s.known[name] = g
	}
	g.in[id] = true
}

// quit notes that a process has destructed a group.
func (s *Server) quit(name string, id int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.known[name]; g != nil {
		delete(g.in, id)
		s.known.drop(name)
	}
}

// left notes that a process is in no group any more.
func (k knownGroups) left(id int) {
	for name, g := range k {
		if g.in[id] {
			delete(g.in, id)
			k.drop(name)
		}
	}
}

// forget drops groups with processes of a job that is over.
func (k knownGroups) forget(ns *namespace) {
	maps.DeleteFunc(k, func(_ string, g *knownGroup) bool {
		return slices.ContainsFunc(g.all, func(m members) bool { return m.ns == ns })
	})
}

func (k knownGroups) drop(name string) {
	if len(k[name].in) == 0 {
		delete(k, name)
	}
}

func (s *Server) groupNames() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.known))
}

// groupMembers are those of the group that a query names.
func (s *Server) groupMembers(about subject) bfrops.Value {
	s.mu.Lock()
	g := s.known[about.group]
	s.mu.Unlock()
	if g == nil {
		return bfrops.Value{}
	}
	return array(bfrops.NewProcs(g.all.procs()...))
}
