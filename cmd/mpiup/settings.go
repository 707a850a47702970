package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/mpiup/mpiup/internal/frameworks"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/network"
	"github.com/mpiup/mpiup/launcher/cli"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/rdma"
)

// settings looks up the variables that say what a flag would say. A flag that was given wins, and then its variable is not read; a
// value that cannot be is an error with the variable's name.
type settings func(variable string) string

// protocol is MPIUP_MPI, else otherwise.
func (s settings) protocol(otherwise string) (string, error) {
	v := s("MPIUP_MPI")
	if v == "" {
		return otherwise, nil
	}
	if _, ok := protocols[v]; !ok && v != native {
		return "", fmt.Errorf("MPIUP_MPI is %.40q; set it to auto, pmix, pmi1, pmi2, pmi-port, none or native", v)
	}
	return v, nil
}

// wait gives a job's way to its hosts the time of MPIUP_WAIT, which is waited to its end.
func (s settings) wait(r *reach.Reach) error {
	v := s("MPIUP_WAIT")
	if v == "" {
		return nil
	}
	wait, err := cli.ParseDuration(v)
	if err == nil && wait == 0 {
		err = errors.New("0 is too short")
	}
	if err != nil {
		return fmt.Errorf("MPIUP_WAIT: %w", err)
	}
	r.Wait, r.WaitBy, r.Insist = wait, "MPIUP_WAIT", true
	return nil
}

// fabric is the values of --fabric and --nccl, each of its variable where the flag was not given.
func (s settings) fabric(w rdma.Wish) (rdma.Wish, error) {
	var err error
	if w.Fabric == "" {
		if w.Fabric, err = rdma.ParseFabric(s("MPIUP_FABRIC")); err != nil {
			return w, fmt.Errorf("MPIUP_FABRIC: %w", err)
		}
	}
	if w.NCCL == nil {
		if w.NCCL, err = rdma.ParseNCCL(s("MPIUP_NCCL")); err != nil {
			return w, fmt.Errorf("MPIUP_NCCL: %w", err)
		}
	}
	return w, nil
}

// frameworks are those of MPIUP_ENV, else otherwise.
func (s settings) frameworks(otherwise frameworks.Set) (set frameworks.Set, err error) {
	v := s("MPIUP_ENV")
	if v == "" {
		return otherwise, nil
	}
	if set, err = frameworks.Parse([]string{v}); err != nil {
		err = fmt.Errorf("MPIUP_ENV: %w", err)
	}
	return set, err
}

// termGrace is how long ranks have when the pod is being ended: what was given, else what the pod has less what the
// rest takes (SIGKILL, the last output, the verdict).
func (s settings) termGrace(given time.Duration) (time.Duration, error) {
	const rest = 5 * time.Second
	v := s("MPIUP_POD_GRACE")
	if given > 0 || v == "" {
		return cmp.Or(given, job.DefaultTermGrace), nil
	}
	pod, err := cli.ParseDuration(v)
	if err != nil {
		return 0, fmt.Errorf("MPIUP_POD_GRACE, the pod's terminationGracePeriodSeconds: %w", err)
	}
	return max(pod-rest, time.Second), nil
}

// restartVariables say how often the job was begun before: ours, JobSet's by the downward API, as its users name it, and Slurm's.
var restartVariables = []string{"MPIUP_RESTART_COUNT", "JOBSET_RESTART_ATTEMPT", "SLURM_RESTART_COUNT"}

// preempt is the values of --preempt-signal and --checkpoint-dir, each of its variable where the flag was not given, and what the
// platform says of earlier beginnings.
func (s settings) preempt(signal int, dir string) (job.Preempt, error) {
	var err error
	if v := s("MPIUP_PREEMPT_SIGNAL"); signal == 0 && v != "" {
		if signal, err = job.ParseEndSignal(v); err != nil {
			return job.Preempt{}, fmt.Errorf("MPIUP_PREEMPT_SIGNAL: %w", err)
		}
	}
	if v := s("MPIUP_CHECKPOINT_DIR"); dir == "" && v != "" {
		if dir, err = cli.ParseCheckpointDir(v); err != nil {
			return job.Preempt{}, fmt.Errorf("MPIUP_CHECKPOINT_DIR: %w", err)
		}
	}
	for _, name := range restartVariables {
		if v := s(name); v != "" {
			n, err := strconv.ParseUint(v, 10, 31)
			if err != nil {
				return job.Preempt{}, fmt.Errorf("%s, how often the job was begun before, is %.40q, which is no number", name, v)
			}
			return job.Preempt{Signal: signal, CheckpointDir: dir, Restarts: int(n)}, nil
		}
	}
	return job.Preempt{Signal: signal, CheckpointDir: dir}, nil
}

// spawnFiles is --spawn-hostfiles, else its variable: a directory. Links and mounts that do not answer are seen when it is used.
func (s settings) spawnFiles(given string) (dir string, err error) {
	by := "--spawn-hostfiles"
	if given == "" {
		given, by = s("MPIUP_SPAWN_HOSTFILES"), "MPIUP_SPAWN_HOSTFILES"
	}
	if given == "" {
		return "", nil
	}
	info, err := os.Stat(given)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no directory", given)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w; name a directory of this host with the hostfiles that ranks may name", by, err)
	}
	return given, nil
}

// pty is --pty, else its variable, else def.
func (s settings) pty(given *pflag.FlagSet, def bool) (bool, error) {
	if given != nil && given.Changed("pty") {
		return given.GetBool("pty")
	}
	switch v := s("MPIUP_PTY"); v {
	case "":
		return def, nil
	case "1", "0":
		return v == "1", nil
	default:
		return false, fmt.Errorf("MPIUP_PTY is %.40q; set it to 1 or 0", v)
	}
}

// network is the values of --net and --mpi-ports, each of its variable where the flag was not given.
func (s settings) network(n network.Wish, r network.Ports) (network.Wish, network.Ports, error) {
	var err error
	if n.IsZero() {
		if n, err = network.ParseWish(s("MPIUP_NET")); err != nil {
			return n, r, fmt.Errorf("MPIUP_NET: %w", err)
		}
	}
	if r.IsZero() {
		if r, err = network.ParsePorts(s("MPIUP_MPI_PORTS")); err != nil {
			return n, r, fmt.Errorf("MPIUP_MPI_PORTS: %w", err)
		}
	}
	return n, r, nil
}

var protocols = map[string]job.Protocol{"auto": job.AutoProtocol, "pmix": job.PMIx, "pmi1": job.PMI1,
	"pmi2": job.PMI2, "pmi-port": job.PMI1OverPort, "none": job.NoProtocol}
