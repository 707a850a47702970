package training

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// Horovodrun is what a command line of horovodrun said.
type Horovodrun struct {
	Words []string      // options for launcher/cli/mpirun; none for Version and Help, and where Elastic is set
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

	Program []string // its words, all the program's: ":" begins no other

	Read line.Parser // whose Line has Version, Help and Without

	options []string
	more    []string // of --mpi-args and --binding-args
	nics    []string
	np      bool
	bound   bool
}

func (l *Horovodrun) add(words ...string) { l.options = append(l.options, words...) }

// ParseHorovodrun reads the words after the launcher's own name.
func ParseHorovodrun(args []string) (Horovodrun, error) {
	l := &Horovodrun{}
	program, err := l.Read.Options(line.Rules{Rows: l.rows(), Hasty: true, Split: func(word string) (name, value string, joined bool) {
		return strings.Cut(word, "=")
	}}, args)
	for _, o := range l.Read.Line.Options {
		if !slices.Contains([]string{"-H", "--hosts", "-hostfile", "--hostfile"}, o.Name) {
			l.Own = append(l.Own, o.Words...)
		}
	}
	switch {
	case err != nil:
		return Horovodrun{}, err
	case l.Read.Line.Version || l.Read.Line.Help:
		return *l, nil
	}
	return l.finish(program)
}

// finish is what horovodrun says to mpirun of itself, and the program.
func (l *Horovodrun) finish(program []string) (Horovodrun, error) {
	switch {
	case len(program) == 0:
		return Horovodrun{}, errors.New("which program? write horovodrun -np 4 python train.py")
	case !l.np:
		return Horovodrun{}, errors.New("how many ranks? horovodrun wants -np")
	case l.Elastic && l.MPI:
		return Horovodrun{}, errors.New("--mpi: ranks of an elastic job meet by Gloo; leave it out, or --min-np and what else is for elastic jobs")
	case l.Scripted && l.Hosted:
		return Horovodrun{}, errors.New("--host-discovery-script says who the hosts are; leave -H and --hostfile out")
	case l.Elastic:
		l.Program = program
		return *l, nil
	case l.Gloo && l.MPI:
		return Horovodrun{}, errors.New("--gloo and --mpi exclude each other")
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
	l.Words = append(l.options, l.more...)
	l.Program = program
	return *l, nil
}
