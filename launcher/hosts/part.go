package hosts

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/hostlist"
)

// Part is which of a job's pods this one is, where all have one command. The first launches, the others serve.
type Part struct {
	First bool
	By    string // what says so: "JOB_COMPLETION_INDEX=1"
	Of    string // the first's host name, its first label; "": nothing tells
	Again bool   // Kubernetes starts pods of this kind again when they have ended, whatever their code
}

// Unplaced are the words for a pod that nothing tells which of the job's it is.
const Unplaced = "which of the job's pods is this? There is none of JOB_COMPLETION_INDEX (Indexed Job, JobSet), " +
	"LWS_WORKER_INDEX (LeaderWorkerSet), GROVE_PCLQ_NAME (Grove), " +
	"PET_NODE_RANK (Kubeflow Trainer), K_MPI_JOB_ROLE (MPI Operator), VC_*_HOSTS (Volcano), and the host name %q has no number of a StatefulSet's: " +
	"say --index N, of which 0 launches, or name all pods with --host, the one first that launches"

// Part asks, in this order: index (negative: nobody gave one), the command line's hosts, and what operators tell their pods. keyForSSH
// says that the job's secret is one that an operator made for ssh.
func (s *Sources) Part(index int, keyForSSH bool) (Part, error) {
	if index >= 0 {
		return Part{First: index == 0, By: fmt.Sprintf("--index %d", index), Of: s.numbered(strconv.Itoa(index))}, nil
	}
	if s.Entries != nil {
		return s.listed("the command line", s.Entries)
	}
	for _, ask := range []func() (Part, bool, error){s.ofMPIOperator, s.ofLWS, s.ofGrove, s.ofVolcano, s.ofTrainer} {
		if part, ok, err := ask(); ok || err != nil {
			return part, err
		}
	}
	if label, sub := hostlist.FirstLabel(s.Hostname), hostlist.FirstLabel(s.Subdomain()); keyForSSH && sub != "" && strings.HasPrefix(label, sub+"-node-") {
		return Part{By: "a node's host name and no hostfile (Kubeflow Trainer)", Of: sub + "-launcher-0-0"}, nil
	}
	if text := s.Env("JOB_COMPLETION_INDEX"); text != "" {
		if err := s.oneJob(); err != nil {
			return Part{}, err
		}
		return s.indexedPart("JOB_COMPLETION_INDEX", text)
	}
	if text := s.ordinal(); text != "" {
		part, err := s.indexedPart("host name "+hostlist.FirstLabel(s.Hostname), text)
		part.By, part.Again = "the number in the host name "+hostlist.FirstLabel(s.Hostname), true
		return part, err
	}
	return Part{}, fmt.Errorf(Unplaced, s.Hostname)
}

// listed is the part that a list of all hosts gives this one.
func (s *Sources) listed(from string, entries []hostlist.Entry) (Part, error) {
	for i, e := range entries {
		if s.Self(e.Name) {
			return Part{First: i == 0, By: fmt.Sprintf("%s, which names host %s", from, e.Name), Of: hostlist.FirstLabel(entries[0].Name)}, nil
		}
	}
	return Part{}, fmt.Errorf("%s names %d hosts, and this one, %s, is none of them: name all pods, the one first that "+
		"launches, or say --index N", from, len(entries), s.Hostname)
}

// ofMPIOperator is a launcher or worker of MPI Operator's, or a launcher of Trainer's, which alone have the hostfile.
func (s *Sources) ofMPIOperator() (Part, bool, error) {
	label := hostlist.FirstLabel(s.Hostname)
	if role := s.Env("K_MPI_JOB_ROLE"); role != "" {
		part := Part{First: role == "launcher", By: "K_MPI_JOB_ROLE=" + role}
		if at := strings.LastIndex(label, "-worker-"); part.First {
			part.Of = label
		} else if at > 0 {
			part.Of = label[:at] + "-launcher"
		}
		return part, true, nil
	}
	from, entries, err := s.hostfile()
	return Part{First: true, By: "the hostfile " + from, Of: label}, err == nil && len(entries) > 0, err
}

func (s *Sources) ofLWS() (Part, bool, error) {
	leader := s.Env("LWS_LEADER_ADDRESS")
	if leader == "" {
		return Part{}, false, nil
	}
	part := Part{First: s.Self(leader), By: "LWS_LEADER_ADDRESS=" + leader, Of: hostlist.FirstLabel(leader), Again: true}
	if index := s.Env("LWS_WORKER_INDEX"); index != "" {
		part.First, part.By = index == "0", "LWS_WORKER_INDEX="+index
	}
	return part, true, nil
}

// ofVolcano takes the first pod of a job's only task, or of the one of several that launches by its name.
func (s *Sources) ofVolcano() (Part, bool, error) {
	_, lists, err := s.tasks()
	if err != nil || len(lists) == 0 {
		return Part{}, false, err
	}
	for _, task := range slices.Sorted(maps.Keys(lists)) {
		name, names := strings.ToLower(task), lists[task]
		if len(names) == 0 || len(lists) > 1 && name != "master" && name != "launcher" {
			continue
		}
		return Part{First: s.Self(names[0]), By: fmt.Sprintf("the first of Volcano's task %s, %s", name, names[0]), Of: hostlist.FirstLabel(names[0])}, true, nil
	}
	return Part{}, false, fmt.Errorf("of this Volcano job's %d tasks none is called master or launcher: say --index 0 in "+
		"the one that launches, and --index 1 in the others", len(lists))
}

func (s *Sources) ofTrainer() (Part, bool, error) {
	const name = "PET_NODE_RANK"
	text := s.Env(name)
	if text == "" {
		return Part{}, false, nil
	}
	part, err := s.indexedPart(name, text)
	return part, err == nil, err
}

// oneJob refuses a JobSet of several Jobs, each of which has a pod of number 0. JobSet says how many in an annotation, which a pod
// has as a variable only where its template asks for it.
func (s *Sources) oneJob() error {
	const name = "JOBSET_GLOBAL_REPLICAS"
	text := s.Env(name)
	if text == "" || text == "1" {
		return nil
	}
	return fmt.Errorf("%s=%.40q: each Job of this JobSet has a pod of JOB_COMPLETION_INDEX 0, and all of those would launch: name all pods with --host, "+
		"the one first that launches; or, if this Job's pods are a job by themselves, do without that variable", name, text)
}

// indexedPart is that of a pod with a number.
func (s *Sources) indexedPart(name, text string) (Part, error) {
	if n, err := strconv.Atoi(text); err != nil || n < 0 {
		return Part{}, fmt.Errorf("%s=%.40q is not the number of a pod: say --index N, of which 0 launches", name, text)
	}
	return Part{First: text == "0", By: name + "=" + text, Of: s.numbered(text)}, nil
}

// numbered is the name of the first of the pods whose names differ in their number, of which this pod's is text.
func (s *Sources) numbered(text string) string {
	if base, ok := strings.CutSuffix(hostlist.FirstLabel(s.Hostname), "-"+text); ok {
		return base + "-0"
	}
	return ""
}

// ordinal is the number of this pod in a StatefulSet, which tells it in the host name alone; "" where there is none.
func (s *Sources) ordinal() string {
	label := hostlist.FirstLabel(s.Hostname)
	at := strings.LastIndexByte(label, '-')
	if at < 1 || s.Subdomain() == "" {
		return ""
	}
	n, err := strconv.Atoi(label[at+1:])
	if err != nil || n < 0 || n >= maxGroup || strconv.Itoa(n) != label[at+1:] {
		return ""
	}
	return label[at+1:]
}

// index is the number of this pod among those of its job: what a controller says, else, where it serves, what its name says.
func (s *Sources) index() string {
	if !s.Serves {
		return s.Env("JOB_COMPLETION_INDEX")
	}
	return cmp.Or(s.Env("JOB_COMPLETION_INDEX"), s.ordinal())
}
