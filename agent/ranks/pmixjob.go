package ranks

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/agent/host"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/secret"
	"github.com/mpiup/mpiup/pmi/pmix"
	"github.com/mpiup/mpiup/pmi/pmix/jobdata"
)

// PMIxJob is a job as PMIx ranks are told of it.
func PMIxJob(st *Job) (pmix.Job, error) {
	l := st.Launch
	hosts, err := hostsOf(l.Launch, st.RanksHere())
	if err != nil {
		return pmix.Job{}, err
	}
	j := pmix.Job{Space: st.space, Surely: st.sure.Load(), Job: jobdata.Job{
		Namespace: l.Job.Namespace,
		Hosts:     hosts,
		Here:      -1,
		Apps:      appsOf(l.Launch),
		Universe:  int(l.Job.Universe),
		Command:   CommandOf(l.Apps),
		Mapping:   l.Job.Mapping,
		Crowded:   st.s.Crowded(),
		Getenv:    func(rank int, name string) string { return variableOf(st, rank, name) },
	}}
	if b := st.bound(); b.Any() {
		j.Binding = b.Places
	}
	if len(l.Procs) > 0 {
		j.Here = int(l.Procs[0].NodeRank)
	}
	if l.Job.Spawned {
		parent := st.s.Jobs.Of(l.Job.Parent)
		if parent == nil {
			return j, fmt.Errorf("spawned by process %d, which no job has", l.Job.Parent)
		}
		j.SpawnedBy = &job.Process{Job: int(parent.Launch.Job.Number), Rank: int(l.Job.Parent - parent.Launch.Job.Base)}
	}
	return j, nil
}

// appsOf is the program of every rank.
func appsOf(l *apiv1.Launch) []int {
	apps := make([]int, l.Job.Size)
	for _, p := range l.Procs {
		apps[p.Rank] = int(p.App)
	}
	for r, app := range l.Job.AppOf {
		apps[r] = int(app)
	}
	return apps
}

// hostsOf is the job's hosts as the launcher states them, checked against what is to start here.
func hostsOf(l *apiv1.Launch, here []int) ([]jobdata.Host, error) {
	hosts := make([]jobdata.Host, len(l.Job.Layout))
	total := 0
	for i, h := range l.Job.Layout {
		ranks, err := idset.Within(h.GetRanks(), int(l.Job.Size))
		if err != nil {
			return nil, fmt.Errorf("ranks of host %d: %w", i, err)
		}
		hosts[i] = jobdata.Host{Name: h.GetName(), Ranks: ranks.Slice()}
		if total += ranks.Len(); total > int(l.Job.Size) {
			return nil, fmt.Errorf("more than %d ranks on the hosts of the job", l.Job.Size)
		}
	}
	if len(l.Procs) == 0 {
		return hosts, nil
	}
	if int(l.Procs[0].NodeRank) >= len(hosts) {
		return nil, fmt.Errorf("host %d of a job of %d hosts", l.Procs[0].NodeRank, len(hosts))
	}
	slices.Sort(here)
	if !slices.Equal(here, hosts[l.Procs[0].NodeRank].Ranks) {
		return nil, errors.New("the ranks to start here are not those the job has here")
	}
	return hosts, nil
}

// variableOf is what the user has set for a rank here: for its program, or in the container.
func variableOf(st *Job, rank int, name string) string {
	var own []string
	for _, p := range st.Launch.Procs {
		if int(p.Rank) == rank {
			own = st.Launch.Apps[p.App].Env
		}
	}
	value, _ := host.Lookup(name, own, st.s.Env)
	return value
}

const MaxAuditCommand = 1024 // bytes of all programs of a Launch, about

// firstWords are the words of a command line that an audit line has room for, the last of them cut.
func firstWords(argv []string) (words []string) {
	bytes := 0
	for _, word := range argv {
		if len(word) > MaxAuditCommand {
			word = strings.ToValidUTF8(word[:MaxAuditCommand], "") + "..."
		}
		words = append(words, word)
		if bytes += len(word) + 1; bytes > MaxAuditCommand {
			return append(words, "...")
		}
	}
	return words
}

// CommandOf is the programs of a launch with their arguments, without secrets, quoted where a space or worse
// would deceive, cut at MaxAuditCommand.
func CommandOf(apps []*apiv1.App) string {
	var b strings.Builder
	for i, a := range apps {
		if i > 0 {
			b.WriteString(" :")
		}
		for _, word := range secret.MaskCommand(firstWords(a.Argv)) {
			if b.Len() > 0 {
				b.WriteByte(' ')
			}
			if b.Len() > MaxAuditCommand {
				b.WriteString("...")
				return b.String()
			}
			if word == "" || strings.ContainsFunc(word, func(r rune) bool { return r <= ' ' || r == '"' || r == '\'' || r > '~' }) {
				word = fmt.Sprintf("%q", word)
			}
			b.WriteString(word)
		}
	}
	return b.String()
}
