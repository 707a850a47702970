package horovodrun

import (
	"errors"
	"fmt"
	"github.com/mpiup/mpiup/docs"
	"strings"
	"time"

	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// Line is what a command line said.
type Line struct {
	Words []string      // for launcher/cli/mpirun, the program's too; none for Version and Help, and where Elastic is set
	Gloo  bool          // ranks meet by Gloo, whatever Horovod was built with
	MPI   bool          // they meet by MPI
	Start time.Duration // how long to wait for hosts; 0: not said
	// Hosted: the hosts are named, and with them slots, which are a limit. horovodrun's own machine takes any number.
	Hosted bool
	// Elastic: the number of ranks changes while they run, which Horovod's own driver sees to. Only these count then.
	Elastic  bool
	Scripted bool     // who the hosts are is said by a script
	Hosts    []string // as mpiup names them, --host a:4,b:4; empty: nobody named them
	SSHArgs  string   // words for ssh, which may name a key
	Own      []string // all other options as they were written
	Program  []string

	Version bool
	Help    bool
	Without []string // what was accepted and has no effect, as it was written

	options []string
	more    []string // of --mpi-args and --binding-args
	nics    []string
	np      bool
	bound   bool
}

func (l *Line) add(words ...string) { l.options = append(l.options, words...) }

// Parse reads the words after the launcher's own name.
func Parse(args []string) (l Line, err error) {
	table := map[string]row{}
	for _, r := range rows() {
		for name := range strings.FieldsSeq(r.names) {
			table[name] = r
		}
	}
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		word := args[0]
		args = args[1:]
		if word == "--" {
			break
		}
		name, value, joined := strings.Cut(word, "=")
		r, ok := table[name]
		switch {
		case !ok:
			return Line{}, fmt.Errorf("unknown option %.60s%s; --help lists them", word, docs.Elsewhere(word))
		case r.level == line.Refused:
			return Line{}, fmt.Errorf("%s: %s", name, r.means)
		case joined && r.args == 0:
			return Line{}, fmt.Errorf("%.60s: %s takes no value", word, name)
		}
		var values []string
		if joined {
			values = []string{value}
		}
		take := r.args - len(values)
		if take > len(args) {
			return Line{}, fmt.Errorf("%s needs a value", name)
		}
		if !r.hosts() {
			l.Own = append(append(l.Own, word), args[:take]...)
		}
		values, args = append(values, args[:take]...), args[take:]
		if r.level == line.NoEffect {
			l.Without = append(l.Without, strings.Join(append([]string{name}, values...), " "))
			continue
		}
		if err := r.set(&l, values); err != nil {
			return Line{}, fmt.Errorf("%.200s: %w", strings.Join(append([]string{name}, values...), " "), err)
		}
		if l.Version || l.Help {
			return l, nil
		}
	}
	return l.finish(args)
}

// finish is what horovodrun says to mpirun of itself, and the program.
func (l Line) finish(program []string) (Line, error) {
	switch {
	case len(program) == 0:
		return Line{}, errors.New("which program? write horovodrun -np 4 python train.py")
	case !l.np:
		return Line{}, errors.New("how many ranks? horovodrun wants -np")
	case l.Elastic && l.MPI:
		return Line{}, errors.New("--mpi: ranks of an elastic job meet by Gloo; leave it out, or --min-np and what else is for elastic jobs")
	case l.Scripted && l.Hosted:
		return Line{}, errors.New("--host-discovery-script says who the hosts are; leave -H and --hostfile out")
	case l.Elastic:
		l.Program = program
		return l, nil
	case l.Gloo && l.MPI:
		return Line{}, errors.New("--gloo and --mpi exclude each other")
	}
	if len(l.nics) > 0 {
		list := strings.Join(l.nics, ",")
		l.add("-x", "NCCL_SOCKET_IFNAME="+list, "-x", "HOROVOD_GLOO_IFACE="+l.nics[0], "-mca", "btl_tcp_if_include", list)
	}
	if l.MPI {
		l.add("-x", "HOROVOD_CONTROLLER=mpi", "-x", "HOROVOD_CPU_OPERATIONS=mpi")
	}
	if !l.bound {
		l.add("-bind-to", "none", "-map-by", "slot")
	}
	l.add("--tag-output", "--fwd-environment")
	l.Words = append(append(l.options, l.more...), program...)
	return l, nil
}
