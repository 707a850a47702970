package hosts

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/hostlist"
)

// operatorFiles are variables in which MPI Operator and Trainer, or users, name a hostfile, each with the rules for
// reading it.
var operatorFiles = []struct {
	name    string
	dialect hostlist.Dialect
}{
	{"OMPI_MCA_orte_default_hostfile", hostlist.OpenMPI}, {"PRTE_MCA_prte_default_hostfile", hostlist.OpenMPI},
	{"HYDRA_HOST_FILE", hostlist.Hydra}, {"I_MPI_HYDRA_HOST_FILE", hostlist.Hydra},
}

func (s *Sources) hostfile() (string, []hostlist.Entry, error) {
	const mounted = "etc/mpi/hostfile"
	path := s.path(mounted)
	entries, err := hostlist.ReadFile(path, hostlist.Own)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return "/" + mounted, entries, err
	}
	for _, v := range operatorFiles {
		if path := s.Env(v.name); path != "" {
			entries, err := hostlist.ReadFile(path, v.dialect)
			if err == nil {
				entries, err = hostlist.On(entries)
			}
			if err != nil {
				err = fmt.Errorf("$%s: %w", v.name, err)
			}
			return path, entries, err
		}
	}
	return "", nil, nil
}

// maxFile bounds what is read of a pod's own files, in bytes.
const maxFile = 4 << 20

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

// volcano is the pods of all tasks, but for the pod this runs in when there are others. One that serves its own ranks
// is among them, unless its task has no other pod.
func (s *Sources) volcano() (string, []hostlist.Entry, error) {
	from, lists, err := s.tasks()
	if err != nil {
		return "", nil, err
	}
	var all []hostlist.Entry
	shared := false // this pod's task
	for _, task := range slices.Sorted(maps.Keys(lists)) {
		if len(lists[task]) == 0 {
			continue
		}
		entries, err := hostlist.ParseList(strings.Join(lists[task], ","))
		if err != nil {
			return "", nil, fmt.Errorf("%s %s: %w", from, task, err)
		}
		all = append(all, entries...)
		shared = shared || len(entries) > 1 && slices.ContainsFunc(entries, func(e hostlist.Entry) bool { return s.Self(e.Name) })
	}
	others := slices.DeleteFunc(slices.Clone(all), func(e hostlist.Entry) bool { return s.Self(e.Name) })
	if len(others) > 0 && !(s.Serves && shared) {
		all = others
	}
	return from, all, nil
}

// tasks are the pods of a Volcano job by task, of VC_<TASK>_HOSTS, or of /etc/volcano/<task>.host where a big job has no such variables.
func (s *Sources) tasks() (from string, lists map[string][]string, err error) {
	from, lists = "VC_*_HOSTS", hostlist.VolcanoTasks(s.Environ())
	if len(lists) > 0 {
		return from, lists, nil
	}
	from = "/etc/volcano"
	files, err := filepath.Glob(s.path("etc/volcano/*.host"))
	if err != nil {
		return "", nil, err
	}
	for _, f := range files {
		b, err := bounded.Regular(f, maxFile)
		if err != nil {
			return "", nil, err
		}
		lists[strings.TrimSuffix(filepath.Base(f), ".host")] = strings.Fields(string(b))
	}
	return from, lists, nil
}

// indexed is an Indexed Job whose size is known: <job>-0 ... below the subdomain of this pod.
func (s *Sources) indexed() (string, []hostlist.Entry, error) {
	index := s.index()
	size, why := s.Count()
	if index == "" || size == 0 {
		return "", nil, nil
	}
	if size < 0 || size > maxGroup {
		return "", nil, fmt.Errorf("%s is not a number of pods", why)
	}
	from := "JOB_COMPLETION_INDEX"
	if s.Env(from) == "" {
		from = "the number in the host name"
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
	return from, entries, nil
}
