package peers

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/nearby"
	"github.com/mpiup/mpiup/launcher/reach"
)

// maxNearby bounds what one run of this machine tells.
const maxNearby = 64 << 20

// nearbyRuns says that the runs of this user on this machine are meant: nobody has named a host, or said that there are several, and there is
// no secret to ask others with.
func nearbyRuns(r *reach.Reach, dir string) bool {
	hosts, _ := r.Least()
	return dir != "" && r.Identity == nil && r.Entries == nil && hosts <= 1
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
	}
	return log, len(all), err
}

// askNearby asks this user's runs here, each of which answers into a reply of its own. No run is a failure that tells how others are asked.
func askNearby[M proto.Message](ctx context.Context, r *reach.Reach, dir string, kind byte, q proto.Message, reply func() M,
	each func(run string, reply M, err error)) error {
	ctx, cancel := awake.Within(ctx, stacksTime)
	defer cancel()
	question, err := proto.Marshal(q)
	if err != nil {
		return err
	}
	all, err := nearby.Ask(ctx, dir, kind, question, maxNearby)
	if err != nil {
		return reach.Failf(job.ExitHosts, "this user's runs on this machine: %v", err)
	}
	if len(all) == 0 {
		return reach.Failf(job.ExitHosts, "no run of yours is on this machine, and no secret is here to ask others: --key FILE (or MPIUP_KEY) with --host w0,w1 asks agents")
	}
	for _, a := range all {
		m := reply()
		if a.Err == nil {
			a.Err = proto.Unmarshal(a.Text, m)
		}
		each("pid "+a.Name, m, a.Err)
	}
	return nil
}
