package mpirun

import (
	"fmt"
	"slices"
	"strings"
)

// environment takes what variables say and the command line does not.
func (p *parser) environment() error {
	settings := []func() error{p.timeLimit}
	if p.line.Family == OpenMPI {
		settings = append(settings, p.parameters)
	} else {
		settings = append(settings, p.hydraVariables)
	}
	for _, set := range settings {
		if err := set(); err != nil {
			return err
		}
	}
	return nil
}

// timeLimit is MPIEXEC_TIMEOUT, which both families know.
func (p *parser) timeLimit() error {
	v, ok := p.out.Lookup("MPIEXEC_TIMEOUT")
	if !ok || v == "" || p.given["timeout"] {
		return nil
	}
	if err := p.timeout([]string{v}); err != nil {
		return fmt.Errorf("MPIEXEC_TIMEOUT: %w", err)
	}
	return nil
}

// parameters takes the launcher's parameters from the environment, where the operators put them.
// Hosts are found elsewhere, in the operators' order.
func (p *parser) parameters() error {
	for _, prefix := range []string{"OMPI_MCA_", "PRTE_MCA_"} {
		for _, l := range launcherParams() {
			for _, name := range strings.Fields(l.names) {
				v, ok := p.out.Lookup(prefix + name)
				if !ok || strings.Contains(name, "hostfile") || p.given["parameter "+l.names] {
					continue
				}
				if err := p.ownParam(name, v); err != nil {
					return fmt.Errorf("%s%s=%.100s: %w", prefix, name, v, err)
				}
			}
		}
	}
	return nil
}

// hydraVariables are those of Hydra and Intel MPI that mean something here.
func (p *parser) hydraVariables() error {
	if v, ok := p.out.Lookup("HYDRA_ENV"); ok && !p.line.Inherit.given {
		p.line.Inherit.None = v != "all"
	}
	for _, name := range []string{"HYDRA_IFACE", "I_MPI_HYDRA_IFACE"} {
		if v, ok := p.out.Lookup(name); ok && v != "" && !p.given["iface"] {
			p.given["iface"] = true
			if err := p.iface([]string{v}); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	if v, ok := p.out.Lookup("I_MPI_GTOOL"); ok && strings.TrimSpace(v) != "" && p.line.Tools == nil {
		if err := p.tools([]string{v}); err != nil {
			return fmt.Errorf("I_MPI_GTOOL: %w", err)
		}
	}
	v, ok := p.out.Lookup("I_MPI_PERHOST")
	if ok && v != "" && v != "all" && v != "allcores" && p.line.PerHost == 0 {
		if err := p.perHost([]string{v}); err != nil {
			return fmt.Errorf("I_MPI_PERHOST: %w", err)
		}
	}
	// One rank of a program that has no number is Hydra's way; Intel MPI takes all slots of its
	// hostfile.
	if _, intel := p.out.Lookup("I_MPI_HYDRA_HOST_FILE"); len(p.line.Contexts) != 1 || !intel {
		for i := range p.line.Contexts {
			p.line.Contexts[i].N = max(p.line.Contexts[i].N, 1)
		}
	}
	return nil
}

// notForRanks are names of the launcher's own container that Hydra would send along: with them a
// worker would take itself for the launcher.
var notForRanks = []string{"HOME", "HOSTNAME", "PWD", "PATH", "LD_LIBRARY_PATH"}

// notForRanksPrefixes and -Suffixes are those of Kubernetes, of the operators, of NVIDIA's runtime
// (MPI Operator empties them in the launcher), of mpiup and of Hydra itself.
var (
	notForRanksPrefixes = []string{"NVIDIA_", "K_MPI_", "KUBERNETES_", "MPIUP_", "HYDRA_", "I_MPI_HYDRA_",
		"PMI_", "PMIX_", "OMPI_COMM_WORLD_"} // the last: of a job that this launcher is in itself
	notForRanksSuffixes = []string{"_PORT"}
	notForRanksWithin   = []string{"_SERVICE_", "_PORT_"}
)

// Forward is what of the launcher's environment goes to the ranks of program i, over their agent's
// own and under what the command line says.
//
// Open MPI sends its own variables along and nothing else; parameters of its launcher and addresses
// of servers are not the ranks' business. Hydra sends everything.
func (l *Line) Forward(i int, environ []string) (env []string) {
	in := l.Inherit
	if own := l.Contexts[i].Inherit; own != nil {
		in = *own
	}
	for _, kv := range environ {
		name, _, ok := strings.Cut(kv, "=")
		if ok && name != "" && (l.Family == Hydra && in.sends(name) || l.Family == OpenMPI && l.openMPISends(name)) {
			env = append(env, kv)
		}
	}
	return env
}

func (in Inherit) sends(name string) bool {
	switch {
	case in.None:
		return false
	case in.Only != nil:
		return slices.Contains(in.Only, name)
	case slices.Contains(notForRanks, name), slices.Contains(in.Except, name):
		return false
	}
	return (!begins(name, notForRanksPrefixes) || strings.HasPrefix(name, "PMIX_MCA_")) &&
		!slices.ContainsFunc(notForRanksSuffixes, func(s string) bool { return strings.HasSuffix(name, s) }) &&
		!slices.ContainsFunc(notForRanksWithin, func(s string) bool { return strings.Contains(name, s) })
}

// ofOtherJob are variables of a job that this launcher is a rank of, and the leave that root needs.
var ofOtherJob = []string{"OMPI_COMM_WORLD_", "OMPI_UNIVERSE_SIZE", "OMPI_NUM_APP_CTX", "OMPI_FIRST_RANKS",
	"OMPI_APP_CTX_NUM_PROCS", "OMPI_FILE_LOCATION", "OMPI_COMMAND", "OMPI_ARGV", "OMPI_WORLD_", "OMPI_ALLOW_RUN_AS_ROOT"}

// openMPISends says whether a variable of ours goes along: Open MPI's own do, and with
// --fwd-environment what Hydra would send.
func (l *Line) openMPISends(name string) bool {
	if param, ok := strings.CutPrefix(name, "OMPI_MCA_"); ok {
		return !ofLauncher(param) && param != "initial_wdir"
	}
	switch {
	case strings.HasPrefix(name, "OMPI_"):
		return !begins(name, ofOtherJob)
	case strings.HasPrefix(name, "PRTE_"):
		return !strings.HasPrefix(name, "PRTE_MCA_") && name != "PRTE_LAUNCHED"
	}
	return strings.HasPrefix(name, "PMIX_MCA_") || l.ForwardAll && Inherit{}.sends(name)
}

func begins(name string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}
