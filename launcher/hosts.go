package launcher

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/hostlist"
)

// hostSet is what one source said.
type hostSet struct {
	from  string // the source, for messages
	hosts []wanted
}

// static asks the sources that need no network, in the order of the contract: --host and
// --hostfile, the MPI operators' hostfile, LeaderWorkerSet, Volcano, an Indexed Job; then a rankfile. A nil set
// without error means that none of them knows any.
func (s *Sources) static() (*hostSet, error) {
	if s.Entries != nil {
		return s.set("the command line", s.Entries), nil
	}
	for _, ask := range []func() (string, []hostlist.Entry, error){s.hostfile, s.lws, s.volcano, s.indexed} {
		from, entries, err := ask()
		if err != nil {
			return nil, err
		}
		if len(entries) > 0 {
			return s.set(from, entries), nil
		}
	}
	if len(s.Otherwise) > 0 {
		return s.set("the file of ranks", s.Otherwise), nil
	}
	return nil, nil
}

func (s *Sources) set(from string, entries []hostlist.Entry) *hostSet {
	set := &hostSet{from: from, hosts: make([]wanted, len(entries))}
	for i, e := range entries {
		set.hosts[i] = wanted{entry: e, local: s.self(e.Name)}
	}
	return set
}

// self says that a name means this container: our own host name, also as the first label of a
// longer one, or a loopback name. A hostNetwork pod has the node's name, which no hostfile
// lists.
func (s *Sources) self(name string) bool {
	if a, err := netip.ParseAddr(name); err == nil {
		return a == netip.AddrFrom4([4]byte{127, 0, 0, 1}) || a == netip.IPv6Loopback()
	}
	return strings.EqualFold(name, "localhost") ||
		s.Hostname != "" && strings.EqualFold(firstLabel(name), firstLabel(s.Hostname))
}

// elsewhere leaves out this container where it is to have no ranks.
func (s *Sources) elsewhere(set *hostSet) error {
	if !s.NotHere {
		return nil
	}
	set.hosts = slices.DeleteFunc(set.hosts, func(w wanted) bool { return w.local || s.self(w.entry.Name) })
	if len(set.hosts) == 0 {
		return fmt.Errorf("%s names this host alone, and it is to have no ranks; name others, or let this one have some", set.from)
	}
	return nil
}

// Operators is what the MPI operators' hostfile says; nil where there is none.
func (s *Sources) Operators() ([]hostlist.Entry, error) {
	if s.Root == "" {
		s.Root = "/"
	}
	_, entries, err := s.hostfile()
	return entries, err
}

// Listed is the hosts of the command line, else of files and variables of the operators; nil where
// there are none. No name service is asked.
func (s *Sources) Listed() ([]hostlist.Entry, error) {
	if s.Root == "" {
		s.Root = "/"
	}
	set, err := s.static()
	if err != nil || set == nil {
		return nil, err
	}
	entries := make([]hostlist.Entry, len(set.hosts))
	for i, w := range set.hosts {
		entries[i] = w.entry
	}
	return entries, nil
}

// operatorFiles are variables in which MPI Operator and Trainer, or users, name a hostfile, and whose
// rules it is read by.
var operatorFiles = []struct {
	name    string
	dialect hostlist.Dialect
}{
	{"OMPI_MCA_orte_default_hostfile", hostlist.OpenMPI}, {"PRTE_MCA_prte_default_hostfile", hostlist.OpenMPI},
	{"HYDRA_HOST_FILE", hostlist.Hydra}, {"I_MPI_HYDRA_HOST_FILE", hostlist.Hydra},
}

func (s *Sources) hostfile() (string, []hostlist.Entry, error) {
	const mounted = "etc/mpi/hostfile"
	path := filepath.Join(s.Root, mounted)
	entries, err := hostlist.ReadFile(path)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return "/" + mounted, entries, err
	}
	for _, v := range operatorFiles {
		if path := s.Env(v.name); path != "" {
			entries, err := hostlist.ReadFileAs(path, v.dialect)
			if err != nil {
				err = fmt.Errorf("$%s: %w", v.name, err)
			}
			return path, entries, err
		}
	}
	return "", nil, nil
}

// maxGroup bounds sizes that the environment states.
const maxGroup = hostlist.MaxHosts

// lws is a LeaderWorkerSet's group: the leader NAME-G.SUB.NS is host 0, its workers are
// NAME-G-1 and so on. The leader's own pod takes part through the embedded agent, or an agent
// of its own.
func (s *Sources) lws() (string, []hostlist.Entry, error) {
	leader, size := s.Env("LWS_LEADER_ADDRESS"), s.Env("LWS_GROUP_SIZE")
	if leader == "" || size == "" {
		return "", nil, nil
	}
	n, err := strconv.Atoi(size)
	if err != nil || n < 1 || n > maxGroup {
		return "", nil, fmt.Errorf("LWS_GROUP_SIZE=%q is not a number of pods", size)
	}
	label, rest, _ := strings.Cut(leader, ".")
	entries := []hostlist.Entry{{Name: leader}}
	for i := 1; i < n; i++ {
		name := fmt.Sprintf("%s-%d", label, i)
		if rest != "" {
			name += "." + rest
		}
		entries = append(entries, hostlist.Entry{Name: name})
	}
	return "LWS_LEADER_ADDRESS", entries, nil
}

// volcano takes VC_<TASK>_HOSTS, or /etc/volcano/<task>.host where a big job has no such
// variables. All tasks' pods are hosts, but for the pod this runs in when there are others.
func (s *Sources) volcano() (string, []hostlist.Entry, error) {
	from := "VC_*_HOSTS"
	lists := map[string][]string{}
	for _, kv := range s.Environ() {
		name, value, _ := strings.Cut(kv, "=")
		if task, ok := strings.CutSuffix(name, "_HOSTS"); ok && strings.HasPrefix(name, "VC_") && len(task) > len("VC_") {
			lists[task] = strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })
		}
	}
	if len(lists) == 0 {
		from = "/etc/volcano"
		files, err := filepath.Glob(filepath.Join(s.Root, "etc/volcano/*.host"))
		if err != nil {
			return "", nil, err
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				return "", nil, err
			}
			lists[filepath.Base(f)] = strings.Fields(string(b))
		}
	}
	var all []hostlist.Entry
	tasks := make([]string, 0, len(lists))
	for task := range lists {
		tasks = append(tasks, task)
	}
	slices.Sort(tasks)
	for _, task := range tasks {
		if len(lists[task]) == 0 {
			continue
		}
		entries, err := hostlist.ParseList(strings.Join(lists[task], ","))
		if err != nil {
			return "", nil, fmt.Errorf("%s %s: %w", from, task, err)
		}
		all = append(all, entries...)
	}
	others := slices.DeleteFunc(slices.Clone(all), func(e hostlist.Entry) bool { return s.self(e.Name) })
	if len(others) > 0 {
		all = others
	}
	return from, all, nil
}

// count is how many hosts the job has, and what says so: --size, or what torchrun is told in a pod of a
// job (Kubeflow Trainer sets PET_NNODES). 0: nothing does; a range of an elastic job is no number.
func (s *Sources) count() (n int, why string) {
	if s.Size != 0 {
		return s.Size, fmt.Sprintf("--size %d", s.Size)
	}
	const name = "PET_NNODES"
	if n, err := strconv.Atoi(s.Env(name)); err == nil && n > 0 && s.Pod {
		return n, fmt.Sprintf("%s=%d", name, n)
	}
	return 0, ""
}

// indexed is an Indexed Job whose size is known: <job>-0 ... below the subdomain of this pod.
func (s *Sources) indexed() (string, []hostlist.Entry, error) {
	index := s.Env("JOB_COMPLETION_INDEX")
	size, why := s.count()
	if index == "" || size == 0 {
		return "", nil, nil
	}
	if size < 0 || size > maxGroup {
		return "", nil, fmt.Errorf("%s is not a number of pods", why)
	}
	full := s.fullName()
	label, domain, _ := strings.Cut(full, ".")
	job, ok := strings.CutSuffix(label, "-"+index)
	if !ok {
		return "", nil, fmt.Errorf("host name %s does not end in -%s (JOB_COMPLETION_INDEX): name the hosts with --host", label, index)
	}
	entries := make([]hostlist.Entry, size)
	for i := range entries {
		entries[i].Name = fmt.Sprintf("%s-%d", job, i)
		if domain != "" {
			entries[i].Name += "." + domain
		}
	}
	return "JOB_COMPLETION_INDEX", entries, nil
}

// fullName is this pod's name with its subdomain, as kubelet writes it into /etc/hosts
// ("10.0.0.7 pod.sub.ns.svc.cluster.local pod"), else the bare host name.
func (s *Sources) fullName() string {
	b, err := os.ReadFile(filepath.Join(s.Root, "etc/hosts"))
	if err != nil {
		return s.Hostname
	}
	return fullName(string(b), s.Hostname)
}

func fullName(etcHosts, host string) string {
	if host == "" || strings.Contains(host, ".") {
		return host
	}
	for line := range strings.Lines(etcHosts) {
		line, _, _ = strings.Cut(line, "#")
		names := strings.Fields(line)
		if len(names) < 2 {
			continue
		}
		if _, err := netip.ParseAddr(names[0]); err != nil {
			continue
		}
		for _, n := range names[1:] {
			if len(n) > len(host) && n[len(host)] == '.' && strings.EqualFold(n[:len(host)], host) &&
				!strings.HasSuffix(n, ".localdomain") {
				return strings.TrimSuffix(n, ".")
			}
		}
	}
	return host
}

// subdomain is the headless service this pod belongs to ("" if none shows).
func (s *Sources) subdomain() string {
	_, domain, _ := strings.Cut(s.fullName(), ".")
	if !strings.Contains(domain, ".svc") {
		return ""
	}
	return domain
}

// ownAddresses are those of this machine's interfaces: they are no other host's.
func ownAddresses() map[netip.Addr]bool {
	own := map[netip.Addr]bool{}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return own
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			own[p.Addr().Unmap()] = true
		}
	}
	return own
}

// compareNames orders host names as people count: w2 before w10.
func compareNames(a, b string) int {
	for a != "" && b != "" {
		na, nb := digits(a), digits(b)
		if na > 0 && nb > 0 {
			x, y := strings.TrimLeft(a[:na], "0"), strings.TrimLeft(b[:nb], "0")
			if c := cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y)); c != 0 {
				return c
			}
			a, b = a[na:], b[nb:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

// digits is how many digits s begins with.
func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}
