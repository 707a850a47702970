package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/mpiup/mpiup/internal/frameworks"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher"
	"github.com/mpiup/mpiup/launcher/cli"
	"github.com/mpiup/mpiup/rdma"
)

// setting is a variable that says what a flag would say.
type setting struct {
	variable string
	over     bool // the flag was given: it wins, and the variable is not read
	set      func(value string) error
}

// into is a setting's value, read into a field.
func into[T any](to *T, parse func(string) (T, error)) func(string) error {
	return func(text string) error {
		v, err := parse(text)
		if err == nil {
			*to = v
		}
		return err
	}
}

// read takes settings from the environment. A value that cannot be is an error with the variable's name.
func (p *process) read(list ...setting) error {
	for _, s := range list {
		if v := p.getenv(s.variable); v != "" && !s.over {
			if err := s.set(v); err != nil {
				return fmt.Errorf("%s: %w", s.variable, err)
			}
		}
	}
	return nil
}

// parseSwitch reads a variable that switches something on or off.
func parseSwitch(value string) (bool, error) {
	if value != "0" && value != "1" {
		return false, fmt.Errorf("%.40q is neither 1 nor 0", value)
	}
	return value == "1", nil
}

// ofNetwork are the settings of a host's network.
func ofNetwork(n *job.Network, r *job.Ports, w *rdma.Wish) []setting {
	return []setting{
		{"MPIUP_NET", !n.IsZero(), into(n, job.ParseNetwork)},
		{"MPIUP_MPI_PORTS", !r.IsZero(), into(r, job.ParsePorts)},
		{"MPIUP_FABRIC", w.Fabric != "", into(&w.Fabric, rdma.ParseFabric)},
		{"MPIUP_NCCL", w.NCCL != nil, into(&w.NCCL, rdma.ParseNCCL)},
	}
}

// settle gives a run what variables say where no flag of it was given, and what the platform says of earlier beginnings.
func (p *process) settle(cfg *launcher.Config, given func(flag string) bool) error {
	preempt := &cfg.Preempt
	list := append(ofNetwork(&cfg.Net, &cfg.MPIPorts, &cfg.Fabric),
		setting{"MPIUP_WAIT", given("wait"), func(v string) (err error) { // which is waited to its end
			cfg.WaitBy, cfg.Insist = "MPIUP_WAIT", true
			if cfg.Wait, err = cli.ParseDuration(v); err == nil && cfg.Wait == 0 {
				err = errors.New("0 is too short")
			}
			return err
		}},
		setting{"MPIUP_ENV", given("env") || given("independent"), into(&cfg.Frameworks, func(v string) (frameworks.Set, error) {
			return frameworks.Parse([]string{v})
		})},
		setting{"MPIUP_PTY", given("pty"), into(&cfg.Pty, parseSwitch)},
		setting{"MPIUP_WATCH_RANKS", given("watch-ranks"), into(&cfg.Stall.Watch, parseSwitch)},
		setting{"MPIUP_PREEMPT_SIGNAL", preempt.Signal != 0, into(&preempt.Signal, job.ParseEndSignal)},
		setting{"MPIUP_CHECKPOINT_DIR", preempt.CheckpointDir != "", into(&preempt.CheckpointDir, cli.ParseCheckpointDir)},
		setting{"MPIUP_SPAWN_HOSTFILES", cfg.SpawnFiles != "", into(&cfg.SpawnFiles, spawnFiles)})
	// How often the job was begun before: ours, JobSet's by the downward API, of which the first counts suspensions too (KEP-1282) and is
	// empty where its controller does not know it, and Slurm's.
	for _, name := range []string{"MPIUP_RESTART_COUNT", "JOBSET_EXECUTION_ATTEMPT", "JOBSET_RESTART_ATTEMPT", "SLURM_RESTART_COUNT"} {
		if p.getenv(name) == "" {
			continue
		}
		list = append(list, setting{name, false, func(v string) error {
			n, err := strconv.ParseUint(v, 10, 31)
			if err != nil {
				return fmt.Errorf("how often the job was begun before is %.40q, which is no number", v)
			}
			preempt.Restarts = int(n)
			return nil
		}})
		break
	}
	return p.read(list...)
}

// protocol is MPIUP_MPI, else otherwise.
func protocol(getenv func(string) string, otherwise string) (string, error) {
	v := getenv("MPIUP_MPI")
	if v == "" {
		return otherwise, nil
	}
	if _, ok := protocols[v]; !ok && v != native {
		return "", fmt.Errorf("MPIUP_MPI is %.40q; set it to auto, pmix, pmi1, pmi2, pmi-port, none or native", v)
	}
	return v, nil
}

// spawnFiles is a directory of hostfiles. Links and mounts that do not answer are seen when it is used.
func spawnFiles(dir string) (string, error) {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no directory", dir)
	}
	if err != nil {
		return "", fmt.Errorf("%w; name a directory of this host with the hostfiles that ranks may name", err)
	}
	return dir, nil
}

// termGrace is how long ranks have when the pod is being ended: what was given, else what the pod has less what the
// rest takes (SIGKILL, the last output, the verdict).
func termGrace(getenv func(string) string, given time.Duration) (time.Duration, error) {
	const rest = 5 * time.Second
	v := getenv("MPIUP_POD_GRACE")
	if given > 0 || v == "" {
		return cmp.Or(given, job.DefaultTermGrace), nil
	}
	pod, err := cli.ParseDuration(v)
	if err != nil {
		return 0, fmt.Errorf("MPIUP_POD_GRACE, the pod's terminationGracePeriodSeconds: %w", err)
	}
	return max(pod-rest, time.Second), nil
}

var protocols = map[string]job.Protocol{"auto": job.AutoProtocol, "pmix": job.PMIx, "pmi1": job.PMI1,
	"pmi2": job.PMI2, "pmi-port": job.PMI1OverPort, "none": job.NoProtocol}
