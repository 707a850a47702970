package hosts

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/hostlist"
)

// clique is a pod's place in NVIDIA Grove, by what its operator tells every container (operator/api/common/constants). Pods are numbered within
// their clique. A job is a leader's clique and a workers' of one scaling group, or one clique alone.
//
//	GROVE_PCLQ_NAME         of the pod's clique: SET-R-CLIQUE, in a scaling group SET-R-GROUP-G-CLIQUE
//	GROVE_PCLQ_POD_INDEX    of the pod, whose host name is PCLQ_NAME-POD_INDEX
//	GROVE_HEADLESS_SERVICE  SET-R.NAMESPACE.svc.cluster.local, whatever the cluster's domain is
//	GROVE_PCSG_TEMPLATE_NUM_PODS  pods of all cliques in one replica of the scaling group; unset elsewhere
type clique struct {
	name, index, service string
	leader, workers      string // cliques; "": there is one only
}

// groveRoles end the names of cliques: those of NVIDIA Dynamo's operator, and those of Grove's own samples.
var groveRoles = [][2]string{{"ldr", "wkr"}, {"leader", "worker"}}

// clique is where this pod is; false: Grove did not make it.
func (s *Sources) clique() (c clique, ok bool) {
	c = clique{name: s.Env("GROVE_PCLQ_NAME"), index: s.Env("GROVE_PCLQ_POD_INDEX")}
	c.service = strings.TrimSuffix(s.Env("GROVE_HEADLESS_SERVICE"), ".cluster.local") // which the resolver knows
	for _, role := range groveRoles {
		for _, suffix := range role {
			if base, is := strings.CutSuffix(c.name, suffix); is {
				c.leader, c.workers = base+role[0], base+role[1]
			}
		}
	}
	return c, c.name != "" && c.index != "" && c.service != ""
}

// ofGrove takes the leader, or where a job is one clique its first pod.
func (s *Sources) ofGrove() (Part, bool, error) {
	c, ok := s.clique()
	if !ok {
		return Part{}, false, nil
	}
	if n, err := strconv.Atoi(c.index); err != nil || n < 0 || c.name == c.leader && n > 0 {
		return Part{}, false, fmt.Errorf("GROVE_PCLQ_POD_INDEX=%.40q in the clique %s: a job has one leader, the pod 0 of "+
			"its clique; say --index N, of which 0 launches", c.index, c.name)
	}
	part := Part{
		First: c.index == "0" && c.name != c.workers,
		By:    "GROVE_PCLQ_NAME=" + c.name + " and GROVE_PCLQ_POD_INDEX=" + c.index,
		Of:    c.name + "-0",
		Again: true,
	}
	if c.leader != "" {
		part.Of = c.leader + "-0"
	}
	return part, true, nil
}

// grove is the pods of this one's replica of a scaling group, else of a clique whose size is known.
func (s *Sources) grove() (string, []hostlist.Entry, error) {
	const from = "GROVE_PCSG_TEMPLATE_NUM_PODS"
	c, ok := s.clique()
	if !ok {
		return "", nil, nil
	}
	n, why := s.Count()
	if text := s.Env(from); n == 0 && text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 {
			return "", nil, fmt.Errorf("%s=%.40q is not a number of pods", from, text)
		}
		why = from
	}
	if n > maxGroup {
		return "", nil, fmt.Errorf("%s: %d pods are more than the %d that a job has at most", why, n, maxGroup)
	}
	if n <= 0 {
		return "", nil, nil
	}
	var entries []hostlist.Entry
	rest := c.name
	if c.leader != "" {
		entries, rest = append(entries, hostlist.Entry{Name: c.leader + "-0." + c.service}), c.workers
	}
	for i := 0; len(entries) < n; i++ {
		entries = append(entries, hostlist.Entry{Name: fmt.Sprintf("%s-%d.%s", rest, i, c.service)})
	}
	return "GROVE_PCLQ_NAME", entries, nil
}
