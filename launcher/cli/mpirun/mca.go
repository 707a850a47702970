package mpirun

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/layout"
	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// LauncherParam is a parameter of Open MPI's launcher that means something here.
type LauncherParam struct {
	Names   string // PRRTE's name stands beside Open MPI 4's
	options string // what goes before it on the command line
	Means   string
	set     func(value string) error
}

func (p *openMPIParser) onParam(set func(l *line.Line, yes bool)) func(string) error {
	return func(v string) error { set(&p.Line, truth(v)); return nil }
}

// option is a parameter that is another way to write an option.
func option(set func([]string) error) func(string) error {
	return func(v string) error { return set([]string{v}) }
}

const mapping = "map-by N pernode bynode byslot bycore bysocket npersocket ppr"

// LauncherParams are all of them.
func LauncherParams() []LauncherParam { return new(openMPIParser).launcherParams() }

// launcherParams has the parameters of a launcher's frameworks that mean something; the others have
// no effect.
func (p *openMPIParser) launcherParams() []LauncherParam {
	return []LauncherParam{
		{"orte_default_hostfile prte_default_hostfile", "hostfile host", "the hostfile, where no hosts are named", func(v string) error {
			p.Hostfile = v
			return nil
		}},
		{"orte_set_default_slots prte_set_default_slots", "", "slots of hosts that are named without", func(v string) (err error) {
			p.Slots, err = line.Number(v, 1, line.MaxRanks)
			return err
		}},
		{"rmaps_base_oversubscribe", "oversubscribe nooversubscribe", "`--oversubscribe`", p.onParam(func(l *line.Line, yes bool) { l.Oversubscribe = yes })},
		{"rmaps_base_no_schedule_local", "nolocal", "`--nolocal`", p.onParam(func(l *line.Line, yes bool) { l.NoLocal = yes })},
		{"rmaps_base_mapping_policy rmaps_default_mapping_policy", mapping, "`--map-by`", option(placing{p}.mapBy)},
		{"rmaps_base_ranking_policy rmaps_default_ranking_policy", "rank-by", "`--rank-by`", option(placing{p}.rankBy)},
		{"rmaps", "", "`seq`: `--map-by seq`", func(v string) error {
			if p.seqMapper = v == "seq"; !p.seqMapper {
				p.Without("parameter rmaps " + v)
			}
			return nil
		}},
		{"rmaps_ppr_n_pernode", mapping, "`-N`", option(placing{p}.perNode)},
		{"rmaps_ppr_n_persocket", mapping, "`--npersocket`", option(placing{p}.perSocket)},
		{"rmaps_base_cpus_per_rank rmaps_base_cpus_per_proc", "cpus-per-proc", "`--cpus-per-proc`", option(line.Count(&p.Line.Binding.Map.PE, layout.MaxThreads))},
		{"hwloc_base_binding_policy hwloc_default_binding_policy", "bind-to bind-to-core bind-to-socket", "`--bind-to`", option(placing{p}.bindTo)},
		{"rmaps_base_display_map", "display-map", "`--display-map`", p.onParam(func(l *line.Line, yes bool) { l.DisplayMap = yes })},
		{"orte_tag_output", "tag-output", "`--tag-output`", p.onParam(func(l *line.Line, yes bool) { l.TagOutput = yes })},
		{"orte_timestamp_output", "timestamp-output", "`--timestamp-output`", p.onParam(func(l *line.Line, yes bool) { l.Timestamps = yes })},
		{"orte_output_filename", "output-filename output-directory output", "`--output-filename`", option(printing{p}.outputName)},
		{"orte_abort_on_non_zero_status", "", "0: a rank's exit code other than 0 ends nothing, and the job's is 0",
			p.onParam(func(l *line.Line, yes bool) { l.KeepOn = !yes })},
		{"orte_enable_recovery", "enable-recovery continuous disable-recovery", "`--enable-recovery`", p.onParam(func(l *line.Line, yes bool) { l.Recover = yes })},
		{"mca_base_env_list", "", "variables for the ranks, `NAME;NAME=value`, as `-x` gives them", p.envParam},
		{"plm_rsh_args plm_ssh_args", "", "`-i FILE` and `-o IdentityFile=FILE` in it name the job's key, where the pod mounts none; the rest has no effect",
			func(v string) error {
				p.Line.SSHArgs = v
				p.Without("parameter plm_rsh_args")
				return nil
			}},
		{"orte_rankfile rmaps_rank_file_path", "rankfile", "`--rankfile`", option(placing{p}.rankFile)},
		{"rmaps_rank_file_physical", "", "CPUs in a rankfile are the kernel's", func(v string) error { p.kernelNumbers = truth(v); return nil }},
		{"hwloc_base_cpu_set hwloc_base_cpu_list hwloc_default_cpu_list", "cpu-set", "`--cpu-set`", option(placing{p}.cpuSet)},
		{"hwloc_base_use_hwthreads_as_cpus hwloc_use_hwthreads_as_cpus", "use-hwthread-cpus", "`--use-hwthread-cpus`",
			p.onParam(func(l *line.Line, yes bool) { l.Binding.HWThreads = yes })},
		{"hwloc_base_report_bindings", "report-bindings", "`--report-bindings`", p.onParam(func(l *line.Line, yes bool) { l.Bindings = yes })},
	}
}

// LauncherFrameworks are those of Open MPI's own launcher; their parameters begin with the name and
// "_", or are the name alone.
var LauncherFrameworks = []string{"plm", "orte", "oob", "ras", "rmaps", "odls", "routed", "rml", "ess", "state", "errmgr",
	"grpcomm", "iof", "filem", "snapc", "schizo", "prte", "rtc", "regx", "dfs", "notifier", "sstore"}

// ofLauncher says that a parameter is not the ranks' business.
func ofLauncher(name string) bool {
	return slices.ContainsFunc(LauncherFrameworks, func(f string) bool { return name == f || strings.HasPrefix(name, f+"_") }) ||
		slices.ContainsFunc(LauncherParams(), func(l LauncherParam) bool { return slices.Contains(strings.Fields(l.Names), name) }) ||
		strings.HasSuffix(name, "_server_uri") || strings.HasPrefix(name, "mca_base_env_list")
}

// truth is a switch's value; Open MPI takes every number but 0 for on.
func truth(v string) bool {
	return !slices.Contains([]string{"", "0", "false", "no", "f", "n", "off", "disabled"}, strings.ToLower(v))
}

// setParam is --mca NAME VALUE. What stands before the first program is for all, as Open MPI 4.1 has it
// whatever its manual says. Of two values of a parameter the last counts, in Open MPI 5: in 4.1 they are an error (Line.Repeated).
func (p *openMPIParser) setParam(v []string) error {
	if !p.First {
		return p.parameter(v, len(p.Line.Contexts), &p.Ctx.Env)
	}
	delete(p.globals, v[0])
	return p.parameter(v, 0, &p.ForAll)
}

// globalParam is --gmca NAME VALUE, before which --mca goes.
func (p *openMPIParser) globalParam(v []string) error {
	if !p.First {
		p.Line.Warnings = append(p.Line.Warnings, fmt.Sprintf("--gmca %.60s %.60s has no effect behind a \":\", as in Open MPI; write it before the first program", v[0], v[1]))
		return nil
	}
	old, given := p.params[param{0, v[0]}]
	switch {
	case given && !p.globals[v[0]]:
		if old != unquoted(v[1]) {
			p.repeated(v[0], old)
		}
		return nil
	case !given:
		p.globals[v[0]] = true
	}
	return p.parameter(v, 0, &p.ForAll)
}

// repeated notes that a parameter has two values.
func (p *openMPIParser) repeated(name, value string) {
	p.Line.Repeated = fmt.Sprintf("parameter %s has the value %.60q already; give it once", name, value)
}

// param is a parameter of one program; those of the first are for all.
type param struct {
	program int
	name    string
}

func (p *openMPIParser) parameter(v []string, program int, give *[]string) error {
	name, value := v[0], unquoted(v[1])
	if err := parameterName(name); err != nil {
		return err
	}
	seen := param{program, name}
	if old, twice := p.params[seen]; twice && old != value {
		p.repeated(name, old)
	}
	p.params[seen] = value
	if !ofLauncher(name) {
		*give = append(*give, "OMPI_MCA_"+name+"="+value)
		return nil
	}
	return p.ownParam(name, value)
}

func parameterName(name string) error {
	if name == "" || strings.ContainsAny(name, "= \t\n\x00") {
		return fmt.Errorf("%.60q is no parameter's name", name)
	}
	return nil
}

// ownParam is a parameter of the launcher itself.
func (p *openMPIParser) ownParam(name, value string) error {
	for _, l := range p.launcherParams() {
		if slices.Contains(strings.Fields(l.Names), name) {
			for _, o := range strings.Fields(l.options) {
				if p.Given[o] {
					return nil
				}
			}
			p.Given["parameter "+l.Names] = true
			return l.set(value)
		}
	}
	p.Without("parameter " + name)
	return nil
}

func (p *openMPIParser) prteParam(v []string) error {
	if err := parameterName(v[0]); err != nil {
		return err
	}
	return p.ownParam(v[0], unquoted(v[1]))
}

func (p *openMPIParser) pmixParam(v []string) error {
	if err := parameterName(v[0]); err != nil {
		return err
	}
	kv := "PMIX_MCA_" + v[0] + "=" + unquoted(v[1])
	if p.First {
		p.ForAll = append(p.ForAll, kv)
	} else {
		p.Ctx.Env = append(p.Ctx.Env, kv)
	}
	return nil
}

// envParam is a list of variables, for all programs.
func (p *openMPIParser) envParam(list string) error {
	for item := range strings.SplitSeq(list, ";") {
		if item == "" {
			continue
		}
		env, err := p.exported(item)
		if err != nil {
			return err
		}
		p.ForAll = append(p.ForAll, env...)
	}
	return nil
}

// unquoted takes off the quotes that Open MPI takes off a parameter's value.
func unquoted(v string) string {
	if len(v) >= 2 && v[0] == '"' && v[len(v)-1] == '"' {
		return v[1 : len(v)-1]
	}
	return v
}
