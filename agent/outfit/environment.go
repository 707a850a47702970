package outfit

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
)

// protocolPrefixes name variables by which an MPI library finds the server that started it.
// Those an agent inherited (it may itself have been started by srun, mpirun or another mpiup)
// belong to another server. MPICH 5 also dies when PMI_* and PMIX_* are both there
// (pmi-wire.md 1.3). Open MPI 4 has its launcher's address in MCA parameters.
var protocolPrefixes = []string{"PMI_", "PMIX_", "OMPI_MCA_ess", "OMPI_MCA_orte_ess_", "OMPI_MCA_orte_hnp_uri",
	"OMPI_MCA_orte_local_daemon_uri"}

// rankVariables are what mpiup tells a rank; those of an outer job are not this job's.
var rankVariables = []string{
	"MPIUP_RANK", "MPIUP_SIZE", "MPIUP_LOCAL_RANK", "MPIUP_LOCAL_SIZE", "MPIUP_NODE_RANK",
	"MPIUP_JOB_ID", "MPIUP_SESSION", "MPIUP_FILES", "MPIUP_RESTART_COUNT", "MPIUP_PREEMPT_SIGNAL",
}

// secretVariables name the files of the job's secret. Ranks have no use for them: a rank that may read those files may
// start programs on every host.
var secretVariables = []string{"MPIUP_KEY", "MPIUP_TLS_DIR"}

// taken are the variables of the container that a launch's processes do not get.
func taken(l *apiv1.Launch) []string {
	if l.Exec != nil { // a person's command, which may be mpiup
		return nil
	}
	return secretVariables
}

// Environment is a process's: the container's own, then what the user exported, then what
// mpiup computed. A later value of a name replaces an earlier one in its place.
func Environment(base, unset, user, ours []string) (env []string) {
	at := make(map[string]int, len(base)+len(user)+len(ours))
	for i, list := range [][]string{base, user, ours} {
		for _, kv := range list {
			name, _, ok := strings.Cut(kv, "=")
			if !ok || i == 0 && (inherited(name) || slices.Contains(unset, name)) || i > 0 && name == "" {
				continue
			}
			if before, there := at[name]; there {
				env[before] = kv
				continue
			}
			at[name] = len(env)
			env = append(env, kv)
		}
	}
	return env
}

func inherited(name string) bool {
	return slices.ContainsFunc(protocolPrefixes, func(p string) bool { return strings.HasPrefix(name, p) }) ||
		slices.Contains(rankVariables, name) || isScriptVariable(name)
}

// computed is what mpiup adds for one process of a launch.
func computed(session, dir string, l *apiv1.Launch, p *apiv1.Proc) []string {
	env := []string{"MPIUP_SESSION=" + session, "MPIUP_JOB_ID=" + l.Job.Id}
	if dir != "" {
		env = append(env, "PWD="+dir)
	}
	if l.Exec.GetTerminal() && l.Exec.GetTerm() != "" {
		env = append(env, "TERM="+l.Exec.GetTerm())
	}
	if l.Exec != nil {
		return env
	}
	env = append(env,
		"MPIUP_RANK="+utoa(p.Rank),
		"MPIUP_SIZE="+utoa(l.Job.Size),
		"MPIUP_LOCAL_RANK="+utoa(p.LocalRank),
		"MPIUP_LOCAL_SIZE="+strconv.Itoa(len(l.Procs)),
		"MPIUP_NODE_RANK="+utoa(p.NodeRank),
		"MPIUP_RESTART_COUNT="+utoa(l.Job.Restarts),
	)
	return append(env, scriptVariables(l, p, dir)...)
}

// saving is what a program needs that saves when its hosts are taken away, and resumes (docs/preemption.md).
func saving(l *apiv1.Launch) []string {
	if l.Exec != nil {
		return nil
	}
	env := []string{"MPIUP_PREEMPT_SIGNAL=" + utoa(cmp.Or(l.Job.PreemptSignal, job.SIGTERM))}
	if l.Job.CheckpointDir != "" {
		env = append(env, "MPIUP_CHECKPOINT_DIR="+l.Job.CheckpointDir)
	}
	return env
}

// tracing is a rank's own place in the run's trace (docs/telemetry.md). Parse has refused what is none.
func tracing(l *apiv1.Launch, p *apiv1.Proc) []string {
	t, err := job.ParseTrace(l.Job.Trace, l.Job.TraceState)
	if err != nil || l.Exec != nil {
		return nil
	}
	env := []string{"TRACEPARENT=" + t.Rank(int(l.Job.Number), int(p.Rank)).String()}
	if t.State != "" {
		env = append(env, "TRACESTATE="+t.State)
	}
	return env
}

func utoa(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

// expanded puts a rank's own variables in the place of $NAME and ${NAME} in values. What the rank does not have
// stays as it is written, $$ is one $. So stays a value that would grow longer than a variable may be: it may name a long one many times.
func expanded(defs, rank []string) []string {
	own := make(map[string]string, len(rank))
	for _, kv := range rank {
		name, value, _ := strings.Cut(kv, "=")
		own[name] = value
	}
	out := make([]string, len(defs))
	for i, def := range defs {
		var b strings.Builder
		rest, more := def, true
		for more && b.Len()+len(rest) < maxString {
			var plain string
			plain, rest, more = strings.Cut(rest, "$")
			b.WriteString(plain)
			if !more {
				break
			}
			whole, name := reference(rest)
			rest = rest[len(whole):]
			if value, ok := own[name]; ok {
				whole = value
			} else if name != "$" {
				whole = "$" + whole
			}
			b.WriteString(whole)
		}
		if out[i] = b.String(); more {
			out[i] = def
		}
	}
	return out
}

// reference is what follows a $ and belongs to it, and the name in it; both are empty where it is none.
func reference(text string) (whole, name string) {
	if strings.HasPrefix(text, "$") {
		return "$", "$"
	}
	if inner, ok := strings.CutPrefix(text, "{"); ok {
		if name, _, ok = strings.Cut(inner, "}"); ok {
			return text[:len(name)+2], name
		}
		return "", ""
	}
	end := strings.IndexFunc(text, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
	if end < 0 {
		end = len(text)
	}
	return text[:end], text[:end]
}

// names says that a list of NAME=value has a name.
func names(env []string, name string) bool {
	return slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
}
