package peers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/mpiup/mpiup/internal/api/codec"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/nearby"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/launcher/slow"
)

// maxNearby bounds what one run of this machine tells.
const maxNearby = 64 << 20

// circle is whom a look asks: this user's runs on this machine, where no flag names hosts, and hosts.
type circle struct {
	reach *reach.Reach
	hosts []hosts.Wanted
	none  error // why no host is asked
	said  bool  // to the user
}

func newCircle(ctx context.Context, r *reach.Reach) *circle {
	c := &circle{reach: r}
	c.hosts, c.none = inquired(ctx, r)
	return c
}

// told is what one host tells of its ranks, or one run on this machine.
type told struct {
	host   string
	reply  *apiv1.RanksReply
	offset slow.Offset // of its wall clock
}

// look asks the circle's runs here and its hosts once. errs is why some tell nothing, by host or run. The error is that there is nobody to ask.
func (c *circle) look(ctx context.Context, q *apiv1.RanksRequest) (near, away []told, errs map[string]string, code int, err error) {
	silent := map[string]string{}
	if near, err = c.nearby(ctx, q, silent); err != nil {
		return nil, nil, nil, 0, err
	}
	var found []reach.Visited
	if c.none == nil {
		var mu sync.Mutex
		found = c.reach.Visit(ctx, c.hosts, func(within context.Context, v *reach.Visited, conn *reach.Conn) error {
			if q.Stacks != nil { // a visit's own time is for agents that need not look for long
				long, cancel := awake.Within(ctx, stacksTime)
				defer cancel()
				within = long
			}
			reply, err := conn.Client.Ranks(within, q)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			if reply.Error != "" {
				silent[nameOf(v)] = reply.Error
			}
			away = append(away, told{nameOf(v), reply, slow.Offset{By: v.Ahead, Within: v.Rtt / 2}})
			return nil
		})
	}
	slices.SortStableFunc(away, func(a, b told) int { return hosts.CompareNames(a.host, b.host) })
	errs, code = troubles(found)
	maps.Copy(errs, silent)
	return near, away, errs, code, nil
}

// alone is the failure of a look for which there is neither a run here nor a host.
func (c *circle) alone() error {
	r := c.reach
	var f *reach.Failure
	switch hosts, _ := r.Least(); {
	case r.Nearby == "" || !errors.As(c.none, &f):
		return c.none
	case errors.Is(r.NoIdentity, identity.ErrNoSecret) && r.Entries == nil && hosts <= 1:
		return reach.Failf(job.ExitHosts, "no run of yours is on this machine alone, and no secret is here to ask others: "+
			"--key FILE (or MPIUP_KEY) with --host w0,w1 asks agents")
	}
	return &reach.Failure{Code: f.Code, Lines: append(f.Lines, "and no run of yours is on this machine alone; of a run over hosts, --host names them")}
}

// tell says once why no host is asked, where the user has named some, or a secret.
func (c *circle) tell() {
	var f *reach.Failure
	wanted := c.reach.Entries != nil || c.reach.NoIdentity != nil && !errors.Is(c.reach.NoIdentity, identity.ErrNoSecret)
	if !c.said && wanted && errors.As(c.none, &f) {
		remedy := ""
		if c.reach.Identity == nil {
			remedy = "; --key FILE (or MPIUP_KEY) names it"
		}
		c.reach.Say("only runs on this machine are shown: %s%s", f.Lines[0], remedy)
	}
	c.said = true
}

// Said are the lines that ranks of this user's runs on this machine wrote last, as a log, and how many runs there are. With an error some
// of them did not tell.
func Said(ctx context.Context, dir string) (log []byte, runs int, err error) {
	ctx, cancel := awake.Within(ctx, stacksTime)
	defer cancel()
	all, err := nearby.Ask(ctx, dir, apiv1.AskSaid, nil, maxNearby)
	for _, a := range all {
		if a.Err != nil {
			err = errors.Join(err, fmt.Errorf("pid %s: %w", a.Name, a.Err))
		}
		log = append(log, a.Text...)
		if len(a.Text) > 0 && !bytes.HasSuffix(a.Text, []byte("\n")) { // what the next run tells begins a line of its own
			log = append(log, '\n')
		}
	}
	return log, len(all), err
}

// nearby asks the circle's runs here; errs gets why one tells nothing, by its pid. The error is that there is nobody to ask, neither here nor on a host.
func (c *circle) nearby(ctx context.Context, q *apiv1.RanksRequest, errs map[string]string) (list []told, err error) {
	if c.reach.Nearby == "" {
		return nil, c.none
	}
	ctx, cancel := awake.Within(ctx, stacksTime)
	defer cancel()
	question, err := codec.Encode(q)
	if err != nil {
		return nil, err
	}
	all, err := nearby.Ask(ctx, c.reach.Nearby, apiv1.AskRanks, question, maxNearby)
	switch {
	case err != nil && c.none != nil:
		return nil, reach.Failf(job.ExitHosts, "this user's runs on this machine: %v", err)
	case err != nil:
		errs[runHere+"?"] = err.Error()
	case len(all) == 0 && c.none != nil:
		return nil, c.alone()
	case c.none != nil:
		c.tell()
	}
	for _, a := range all {
		m := &apiv1.RanksReply{}
		if a.Err == nil {
			a.Err = proto.Unmarshal(a.Text, m)
		}
		if a.Err == nil {
			codec.Vet(m) // names of processes may hold anything
			list = append(list, told{host: c.reach.Pod, reply: m})
		} else {
			m.Error = visible.Line(a.Err.Error())
		}
		if m.Error != "" {
			errs[runHere+a.Name] = m.Error
		}
	}
	return list, nil
}

// runHere begins what a run on this machine is called, as no host is.
const runHere = "pid "
