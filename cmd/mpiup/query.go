package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mpiup/mpiup/launcher/cli"
	"github.com/mpiup/mpiup/launcher/reach"
)

// query is what commands have in common that ask agents that are there.
type query struct {
	hosts   cli.HostFlags
	verbose int
	near    bool // this user's runs on this machine are asked, too, unless a flag names hosts
}

// queryWait is for hosts that are there; minutes of waiting are for jobs.
const queryWait = 10 * time.Second

func (q *query) register(fs *pflag.FlagSet) {
	q.hosts.Register(fs)
	fs.CountVarP(&q.verbose, "verbose", "v", "say more of what mpiup does; twice for debugging")
}

// reach has ask speak to the agents that the flags of c name.
func (q *query) reach(p *process, c *cobra.Command, ask func(reach.Reach) error) error {
	return q.reachFor(p, c, &cli.LeaseFlags{}, ask)
}

// reachFor is reach with the times of a lease, for a command that starts something.
func (q *query) reachFor(p *process, c *cobra.Command, lease *cli.LeaseFlags, ask func(reach.Reach) error) error {
	if !c.Flags().Changed("wait") {
		q.hosts.Wait = queryWait
	}
	q.hosts.Spare = q.near
	r, done, err := p.reach(&q.hosts, lease, q.verbose)
	if err != nil {
		return err
	}
	defer done()
	r.Asks = true
	if q.near && len(q.hosts.Hosts) == 0 && q.hosts.Hostfile == "" && q.hosts.Size == 0 {
		r.Nearby = nearbyDir(p.getenv)
	}
	return ask(r)
}

// passedOn are the signals that a program is sent in this process's place, until stop: to end, of a terminal's size, and more. SIGHUP
// is none of them where it was ignored, as by nohup.
func (p *process) passedOn(more ...os.Signal) (signals chan os.Signal, stop func()) {
	signals = make(chan os.Signal, 64)
	signal.Notify(signals, append(more, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGWINCH)...)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	if s := p.earlier(); s != nil {
		signals <- s // which has room for it
	}
	outliveReaders()
	return signals, func() { signal.Stop(signals) }
}

// outliveReaders makes an error of what is written to standard output or error when its reader has gone. Else Go ends the process by SIGPIPE (os/signal),
// and with it the ranks that it holds, which may have seconds left to save what they have: Ctrl-C ends "| tee log", too.
func outliveReaders() {
	if !signal.Ignored(syscall.SIGPIPE) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	}
}
