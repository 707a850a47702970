package hosts

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/visible"
)

// Number is how many hosts a job has, as far as a command line and this pod's environment say.
type Number struct {
	Env func(string) string // this process's environment; nil: empty

	Size     int    // as the command line says; 0: it does not
	SizeBy   string // the flag that says so; "": --size
	Sizeless bool   // the command has no such flag
	// Said: the command line settles by itself which hosts are meant, and what the pod is told of their number does not count.
	Said bool
}

// told are the variables that say how many hosts a pod's job has. A range, "2:4" of an elastic job's PET_NNODES, says how many at least.
//
//	PET_NNODES                    torchrun's --nnodes, which Kubeflow Trainer sets
//	GROVE_PCSG_TEMPLATE_NUM_PODS  pods of one replica of a Grove scaling group
//	LWS_GROUP_SIZE                pods of a LeaderWorkerSet's group
var told = []struct{ name, beside string }{
	{"PET_NNODES", ""}, {"GROVE_PCSG_TEMPLATE_NUM_PODS", "GROVE_PCLQ_NAME"}, {"LWS_GROUP_SIZE", "LWS_LEADER_ADDRESS"},
}

// Count is how many hosts the job has, and what says so: the command line, else what operators tell its pods. 0: nothing does; a
// range is no number.
func (s *Number) Count() (n int, why string) {
	least, most, why, _ := s.count()
	if least != most {
		return 0, ""
	}
	return least, why
}

// Least is how many hosts the job has at least, and what says so; 0: nothing does.
func (s *Number) Least() (n int, why string) {
	n, _, why, _ = s.count()
	return n, why
}

// count is of the first variable that says how many; err is of one that says it in a way that nobody understands.
func (s *Number) count() (least, most int, why string, err error) {
	if s.Size != 0 {
		return s.Size, s.Size, fmt.Sprintf("%s %d", cmp.Or(s.SizeBy, "--size"), s.Size), nil
	}
	// What a rank starts is its own, and it has PET_NNODES of the run that it is in.
	if s.Said || s.Env("MPIUP_RANK") != "" {
		return 0, 0, "", nil
	}
	for _, v := range told {
		text := s.Env(v.name)
		if text == "" || v.beside != "" && s.Env(v.beside) == "" {
			continue
		}
		from, to, ok := hostsIn(text)
		switch {
		case !ok:
			err = cmp.Or(err, fmt.Errorf("%s is %.40q, which is no number of hosts: set it to one, or take it out of the environment (env -u %s)", v.name, text, v.name))
		case why == "":
			least, most, why = from, to, v.name+"="+text
		}
	}
	return least, most, why, err
}

// hostsIn is how many hosts a value says, or from how many to how many.
func hostsIn(text string) (least, most int, ok bool) {
	from, to, isRange := strings.Cut(text, ":")
	if !isRange {
		to = from
	}
	least, err := strconv.Atoi(from)
	most, toErr := strconv.Atoi(to)
	return least, most, errors.Join(err, toErr) == nil && least > 0 && most >= least
}

// Readable says that a pod is told how many hosts its job has in a way that nobody understands; nil: it is not, or the command line
// settles it.
func (s *Number) Readable() error {
	_, _, _, err := s.count()
	return err
}

// Fewer says that the job is to have more hosts than a set has, and how to go on; nil: it has enough, or nothing says how many. A
// nil set has none that anything names.
func (s *Number) Fewer(set *Set) error {
	n, why := s.Least()
	have, named := 1, "nothing names the hosts" // but this one
	if set != nil {
		have, named = len(set.Hosts), set.From+" names "+visible.Count(len(set.Hosts), "host")
	}
	if have >= n {
		return nil
	}
	name, _, variable := strings.Cut(why, "=")
	less := fmt.Sprintf("write %s %d", cmp.Or(s.SizeBy, "--size"), have)
	if variable {
		why += fmt.Sprintf(" says that the job has %d hosts", n)
	}
	if variable && s.Sizeless {
		less = fmt.Sprintf("take %s out of the environment (env -u %s)", name, name)
	}
	return fmt.Errorf("%s, and %s: name all %d, or %s for a run on fewer", why, named, n, less)
}

// Array is what tells that other pods may be of this one's job where nothing says how many: a pod of an array has it as well, whose pods
// are jobs by themselves. "": nothing does, or how many is known.
func (s *Number) Array() string {
	if n, _ := s.Least(); n > 0 || s.Said || s.Env("MPIUP_RANK") != "" {
		return ""
	}
	for _, name := range []string{"JOB_COMPLETION_INDEX", "GROVE_PCLQ_NAME", "LWS_LEADER_ADDRESS", "PET_NODE_RANK", "K_MPI_JOB_ROLE"} {
		if v := s.Env(name); v != "" {
			return name + "=" + v
		}
	}
	return ""
}
