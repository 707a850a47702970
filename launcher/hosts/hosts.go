// Package hosts is where a run's hosts come from without a network: the command line, files and variables of the
// operators, a file of ranks. The first source that knows any is taken; docs/hosts.md has the contract.
//
//	--host, --hostfile ▸ /etc/mpi/hostfile, *_HOSTFILE ▸ LeaderWorkerSet ▸ Grove ▸ Volcano ▸ Indexed Job ▸ file of ranks ─▶ Set
//
// It also tells this container from others by its name, orders names as people count, and reads the hostfiles that ranks may name.
//
// Concurrency: functions share nothing, and only read Sources.
//
// The package asks no name service and no agent: DNS, gossip and the dialling of hosts are launcher's.
package hosts

import (
	"cmp"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/run/model"
)

// Set is what one source said.
type Set struct {
	From  string // the source, for messages
	Hosts []Wanted
}

// Wanted is a host that the run needs.
type Wanted = model.Wanted

// Sources is where hosts may come from. They are tried in the order of the Kubernetes
// contract; the first that knows any is taken.
type Sources struct {
	Entries []hostlist.Entry // --host or --hostfile; nil: neither was given
	// Otherwise are the hosts of a rankfile or of a default hostfile, for where nothing else names any.
	Otherwise []hostlist.Entry
	// OtherwiseFrom is the file that has these; "": the file of ranks.
	OtherwiseFrom string
	Number        // how many there are

	Environ  func() []string // all of this process's environment, for VC_*_HOSTS; nil: empty
	Root     string          // where etc/ is; default "/"
	Hostname string          // this host's name
	Pod      bool            // in a pod with a mounted secret: DNS and gossip may be asked
	NotHere  bool            // no rank on this host, whoever names it
	Serves   bool            // this process is its host's agent too, and the host one of the job's
	Local    bool            // all ranks on this host, whoever names others
	Nearby   string          // where this user's runs on this machine listen, which are looked at beside hosts; "": nowhere
}

// Static asks the sources that need no network, in the order of the contract: --host and
// --hostfile, the MPI operators' hostfile, LeaderWorkerSet, Grove, Volcano, an Indexed Job; then a rankfile. A nil set
// without error means that none of them knows any.
func (s *Sources) Static() (*Set, error) {
	if s.Entries != nil {
		return s.set("the command line", s.Entries), nil
	}
	for _, ask := range []func() (string, []hostlist.Entry, error){s.hostfile, s.lws, s.grove, s.volcano, s.indexed} {
		from, entries, err := ask()
		if err != nil {
			return nil, err
		}
		if len(entries) > 0 {
			if s.Size > 0 { // as of those that are found one by one
				entries = entries[:min(s.Size, len(entries))]
			}
			return s.set(from, entries), nil
		}
	}
	if len(s.Otherwise) > 0 {
		return s.set(cmp.Or(s.OtherwiseFrom, "the file of ranks"), s.Otherwise), nil
	}
	return nil, nil
}

func (s *Sources) path(name string) string { return filepath.Join(cmp.Or(s.Root, "/"), name) }

func (s *Sources) set(from string, entries []hostlist.Entry) *Set {
	set := &Set{From: from, Hosts: make([]Wanted, len(entries))}
	for i, e := range entries {
		set.Hosts[i] = Wanted{Entry: e, Local: s.Self(e.Name)}
	}
	return set
}

// Self says that a name means this container: our own host name, also as the first label of a
// longer one, or a loopback name. A hostNetwork pod has the node's name, which no hostfile
// lists.
func (s *Sources) Self(name string) bool {
	if a, err := netip.ParseAddr(name); err == nil {
		return a == netip.AddrFrom4([4]byte{127, 0, 0, 1}) || a == netip.IPv6Loopback()
	}
	return strings.EqualFold(name, "localhost") ||
		s.Hostname != "" && strings.EqualFold(hostlist.FirstLabel(name), hostlist.FirstLabel(s.Hostname))
}

// Elsewhere leaves out this container where it is to have no ranks.
func (s *Sources) Elsewhere(set *Set) error {
	if !s.NotHere {
		return nil
	}
	set.Hosts = slices.DeleteFunc(set.Hosts, func(w Wanted) bool { return w.Local || s.Self(w.Entry.Name) })
	if len(set.Hosts) == 0 {
		return fmt.Errorf("%s names this host alone, and it is to have no ranks; name others, or let this one have some", set.From)
	}
	return nil
}

// Operators is what the MPI operators' hostfile says; nil where there is none.
func (s *Sources) Operators() ([]hostlist.Entry, error) {
	_, entries, err := s.hostfile()
	return entries, err
}

// Entries are the hosts as they were named; nil of a nil set.
func (set *Set) Entries() (entries []hostlist.Entry) {
	if set != nil {
		for _, w := range set.Hosts {
			entries = append(entries, w.Entry)
		}
	}
	return entries
}

// Again are the words by which another command reaches the same hosts with the same key, " --key FILE --host w[0-9]". Hosts that are not named, or of
// which a sentence would name a few only, are left out.
func (s *Sources) Again(keyFrom string) (words string) {
	if file, named := strings.CutPrefix(keyFrom, "--key "); named {
		words = " --key " + visible.Path(file)
	}
	var names []string
	for _, e := range s.Entries {
		names = append(names, e.Name)
	}
	list := strings.ReplaceAll(hostlist.Listed(names), ", ", ",")
	switch {
	case list == "" || strings.Contains(list, " "):
	case strings.Contains(list, "["):
		words += " --host '" + list + "'"
	default:
		words += " --host " + list
	}
	return words
}
