package mpirun

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/layout"
	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// LauncherParam is a parameter of Open MPI's launcher that means something here.
type LauncherParam struct {
	Names   string // PRRTE's name stands beside Open MPI 4's
	options string // what goes before it on the command line
	Means   string
	set     func(value string) error
	prrte   bool // the names are PRRTE's alone: OMPI_MCA_ variables and --mca do not mean it
}

// isNamed says that a parameter is this one.
func (l *LauncherParam) isNamed(name string) bool {
	return slices.Contains(strings.Fields(l.Names), name)
}

func (p *openMPIParser) onParam(set func(l *line.Line, yes bool)) func(string) error {
	return func(v string) error { set(&p.Line, truth(v)); return nil }
}

// onSwitch is a parameter that is another way to write an option without a value, where it is on.
func onSwitch(set func([]string) error, value string) func(string) error {
	return func(v string) error {
		if !truth(v) {
			return nil
		}
		return set([]string{value})
	}
}

// onCount is a parameter that is another way to write an option with a number, of which 0 is none.
func onCount(set func([]string) error) func(string) error {
	return func(v string) error {
		if v == "0" {
			return nil
		}
		return set([]string{v})
	}
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
	return slices.Concat(p.hostParams(), p.mappingParams(), p.outputParams(), p.endingParams(), p.prrteParams())
}

// hostParams say where ranks run.
func (p *openMPIParser) hostParams() []LauncherParam {
	return []LauncherParam{
		{Names: "orte_default_hostfile prte_default_hostfile", options: "hostfile host",
			Means: "the hostfile, where no hosts are named; `none` is none", set: p.defaultHostfile},
		{Names: "orte_default_dash_host prte_default_dash_host", options: "hostfile host", Means: "as `--host`, where no hosts are named",
			set: option(p.List)},
		{Names: "orte_set_default_slots prte_set_default_slots", Means: "slots of hosts that are named without; `cores` and the like are so anyway",
			set: p.defaultSlots},
		{Names: "orte_rankfile rmaps_rank_file_path", options: "rankfile", Means: "`--rankfile`", set: option(placing{p}.rankFile)},
		{Names: "rmaps_rank_file_physical", Means: "CPUs in a rankfile are the kernel's",
			set: func(v string) error { p.kernelNumbers = truth(v); return nil }},
		{Names: "plm_rsh_args plm_ssh_args",
			Means: "`-i FILE` and `-o IdentityFile=FILE` in it name the job's key, where the pod mounts none; the rest has no effect",
			set: func(v string) error {
				p.Line.SSHArgs = v
				p.Without("parameter plm_rsh_args")
				return nil
			}},
	}
}

// mappingParams say which rank goes to which host and CPUs.
func (p *openMPIParser) mappingParams() []LauncherParam {
	place := placing{p}
	return []LauncherParam{
		{Names: "rmaps_base_oversubscribe", options: "oversubscribe nooversubscribe", Means: "`--oversubscribe`",
			set: p.onParam(func(l *line.Line, yes bool) { l.Oversubscribe = yes })},
		{Names: "rmaps_base_no_oversubscribe", options: "oversubscribe nooversubscribe", Means: "`--nooversubscribe`",
			set: p.onParam(func(l *line.Line, yes bool) { l.Oversubscribe = l.Oversubscribe && !yes })},
		{Names: "rmaps_base_no_schedule_local", options: "nolocal", Means: "`--nolocal`",
			set: p.onParam(func(l *line.Line, yes bool) { l.NoLocal = yes })},
		{Names: "rmaps_base_mapping_policy rmaps_default_mapping_policy rmaps_base_schedule_policy", options: mapping, Means: "`--map-by`",
			set: p.mapByParam},
		{Names: "rmaps_base_ranking_policy rmaps_default_ranking_policy", options: "rank-by", Means: "`--rank-by`", set: option(place.rankBy)},
		{Names: "rmaps", Means: "`seq`: `--map-by seq`", set: func(v string) error {
			if p.seqMapper = v == "seq"; !p.seqMapper {
				p.Without("parameter rmaps " + v)
			}
			return nil
		}},
		{Names: "rmaps_ppr_n_pernode rmaps_base_n_pernode", options: mapping, Means: "`-N`", set: onCount(place.perNode)},
		{Names: "rmaps_ppr_n_persocket rmaps_base_n_persocket", options: mapping, Means: "`--npersocket`", set: onCount(place.perSocket)},
		{Names: "rmaps_ppr_pernode rmaps_base_pernode", options: mapping, Means: "`--pernode`", set: onSwitch(place.perNode, "1")},
		{Names: "rmaps_ppr_pattern rmaps_base_pattern", options: mapping, Means: "`--ppr`",
			set: func(v string) error { return place.mapBy([]string{"ppr:" + v}) }},
		{Names: "rmaps_base_bynode", options: mapping, Means: "`--bynode`", set: onSwitch(place.mapBy, "node")},
		{Names: "rmaps_base_byslot", options: mapping, Means: "`--byslot`", set: onSwitch(place.mapBy, "slot")},
		{Names: "rmaps_base_bycore", options: mapping, Means: "`--bycore`", set: onSwitch(place.mapBy, "core")},
		{Names: "rmaps_base_cpus_per_rank rmaps_base_cpus_per_proc", options: "cpus-per-proc", Means: "`--cpus-per-proc`",
			set: onCount(line.Count(&p.cpusPerRank, layout.MaxThreads))},
		{Names: "hwloc_base_binding_policy hwloc_default_binding_policy", options: "bind-to bind-to-core bind-to-socket", Means: "`--bind-to`",
			set: option(place.bindTo)},
		{Names: "hwloc_base_bind_to_core", options: "bind-to bind-to-core bind-to-socket", Means: "`--bind-to-core`",
			set: onSwitch(place.bindTo, "core")},
		{Names: "hwloc_base_bind_to_socket", options: "bind-to bind-to-core bind-to-socket", Means: "`--bind-to-socket`",
			set: onSwitch(place.bindTo, "socket")},
		{Names: "hwloc_base_cpu_set hwloc_base_cpu_list hwloc_default_cpu_list hwloc_base_slot_list", options: "cpu-set", Means: "`--cpu-set`",
			set: option(place.cpuSet)},
		{Names: "hwloc_base_use_hwthreads_as_cpus hwloc_use_hwthreads_as_cpus", options: "use-hwthread-cpus", Means: "`--use-hwthread-cpus`",
			set: p.onParam(func(l *line.Line, yes bool) { l.Binding.HWThreads = yes })},
	}
}

// outputParams say what is done with output, and what is shown.
func (p *openMPIParser) outputParams() []LauncherParam {
	return []LauncherParam{
		{Names: "rmaps_base_display_map", options: "display-map", Means: "`--display-map`",
			set: p.onParam(func(l *line.Line, yes bool) { l.DisplayMap = yes })},
		{Names: "hwloc_base_report_bindings", options: "report-bindings", Means: "`--report-bindings`",
			set: p.onParam(func(l *line.Line, yes bool) { l.Bindings = yes })},
		{Names: "orte_tag_output", options: "tag-output", Means: "`--tag-output`", set: p.onParam(func(l *line.Line, yes bool) { l.TagOutput = yes })},
		{Names: "orte_timestamp_output", options: "timestamp-output", Means: "`--timestamp-output`",
			set: p.onParam(func(l *line.Line, yes bool) { l.Timestamps = yes })},
		{Names: "iof_base_redirect_app_stderr_to_stdout", options: "merge-stderr-to-stdout", Means: "`--merge-stderr-to-stdout`",
			set: p.onParam(func(l *line.Line, yes bool) { l.Merge = yes })},
		{Names: "orte_output_filename", options: "output-filename output-directory output", Means: "`--output-filename`",
			set: option(printing{p}.outputName)},
		{Names: "orte_execute_quiet prte_execute_quiet", options: "quiet", Means: "`--quiet`",
			set: p.onParam(func(l *line.Line, yes bool) { l.Quiet = l.Quiet || yes })},
	}
}

// endingParams say what is started, with which variables, and what an end means.
func (p *openMPIParser) endingParams() []LauncherParam {
	return []LauncherParam{
		{Names: "orte_do_not_launch", options: "do-not-launch", Means: "`--do-not-launch`",
			set: p.onParam(func(l *line.Line, yes bool) { l.DryRun = l.DryRun || yes })},
		{Names: "orte_abort_on_non_zero_status", Means: "0: a rank's exit code other than 0 ends nothing, and the job's is 0",
			set: p.onParam(func(l *line.Line, yes bool) { l.KeepOn = !yes })},
		{Names: "orte_enable_recovery", options: "enable-recovery continuous disable-recovery", Means: "`--enable-recovery`",
			set: p.onParam(func(l *line.Line, yes bool) { l.Recover = yes })},
		{Names: "orte_fork_agent odls_base_exec_agent", Means: "a program with its arguments that starts each rank's",
			set: p.forkAgent},
		{Names: "mca_base_env_list", Means: "variables for the ranks, `NAME;NAME=value`, as `-x` gives them",
			set: func(v string) error { p.envList = v; return nil }},
		{Names: "mca_base_env_list_delimiter", Means: "what stands between these variables",
			set: func(v string) error { p.envDelimiter = v; return nil }},
	}
}

// prrteParams are names of PRRTE for options, which only its own variables, --prtemca and its own files set.
func (p *openMPIParser) prrteParams() []LauncherParam {
	return []LauncherParam{
		{Names: "map_by mapby", options: mapping, Means: "`--map-by` (`PRTE_MCA_` and `--prtemca` alone)", set: p.mapByParam, prrte: true},
		{Names: "rank_by rankby", options: "rank-by", Means: "`--rank-by` (`PRTE_MCA_` and `--prtemca` alone)", set: option(placing{p}.rankBy), prrte: true},
		{Names: "display", options: "display", Means: "`--display` (`PRTE_MCA_` and `--prtemca` alone)", set: option(printing{p}.display), prrte: true},
		{Names: "runtime_options rtos", options: "runtime-options", Means: "`--runtime-options` (`PRTE_MCA_` and `--prtemca` alone)",
			set: option(p.runtime), prrte: true},
		{Names: "prte_fwd_environment", options: "fwd-environment", Means: "`--fwd-environment`",
			set: p.onParam(func(l *line.Line, yes bool) { l.ForwardAll = l.ForwardAll || yes }), prrte: true},
		{Names: "state_base_error_non_zero_exit", Means: "0: a rank's exit code other than 0 ends nothing, and the job's is 0",
			set: p.onParam(func(l *line.Line, yes bool) { l.KeepOn = !yes }), prrte: true},
	}
}

// mapByParam is --map-by as a parameter, whose modifiers do not undo the options that say the same.
func (p *openMPIParser) mapByParam(v string) error {
	oversubscribe, noLocal := p.Line.Oversubscribe, p.Line.NoLocal
	err := placing{p}.mapBy([]string{v})
	if p.optionGiven("oversubscribe nooversubscribe") {
		p.Line.Oversubscribe = oversubscribe
	}
	p.Line.NoLocal = p.Line.NoLocal || noLocal
	return err
}

// defaultHostfile is the hostfile where the command line names no hosts.
func (p *openMPIParser) defaultHostfile(v string) error {
	if v != "none" {
		p.Hostfile = v
	}
	return nil
}

// defaultSlots is the slots of hosts that are named without. Words for what a host has are mpiup's own way.
func (p *openMPIParser) defaultSlots(v string) (err error) {
	if slices.Contains([]string{"cores", "sockets", "packages", "numas", "hwthreads", "none"}, v) {
		return nil
	}
	p.Slots, err = line.Number(v, 1, line.MaxRanks)
	return err
}

// forkAgent puts a program before those of all ranks.
func (p *openMPIParser) forkAgent(v string) error {
	if words := strings.Fields(v); len(words) > 0 {
		p.Line.Tools = append(p.Line.Tools, job.Tool{Argv: words})
	}
	return nil
}

// LauncherFrameworks are those of Open MPI's own launcher; their parameters begin with the name and
// "_", or are the name alone.
var LauncherFrameworks = []string{"plm", "orte", "oob", "ras", "rmaps", "odls", "routed", "rml", "ess", "state", "errmgr",
	"grpcomm", "iof", "filem", "snapc", "schizo", "prte", "rtc", "regx", "dfs", "notifier", "sstore"}

// ofLauncher says that a parameter is not the ranks' business.
func ofLauncher(name string) bool {
	return slices.ContainsFunc(LauncherFrameworks, func(f string) bool { return name == f || strings.HasPrefix(name, f+"_") }) ||
		slices.ContainsFunc(LauncherParams(), func(l LauncherParam) bool { return !l.prrte && l.isNamed(name) }) ||
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

// paramOfAll is a parameter for all programs.
func paramOfAll(name string) param { return param{0, name} }

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
	given := givenParam{name, value, "--mca"}
	if !ofLauncher(name) {
		*give = append(*give, "OMPI_MCA_"+name+"="+value)
		p.noteParam(given)
		return nil
	}
	return p.ownParam(given, false)
}

func parameterName(name string) error {
	if name == "" || strings.ContainsAny(name, "= \t\n\x00") {
		return fmt.Errorf("%.60q is no parameter's name", name)
	}
	return nil
}

// ownParam is a parameter of the launcher itself; prrte says that it was set in a way that is PRRTE's alone.
func (p *openMPIParser) ownParam(given givenParam, prrte bool) error {
	for _, l := range p.launcherParams() {
		if !l.isNamed(given.name) || l.prrte && !prrte {
			continue
		}
		if p.optionGiven(l.options) {
			return nil
		}
		p.Given["parameter "+l.Names] = true
		return l.set(given.value)
	}
	p.noteParam(given)
	return nil
}

// optionGiven says that one of some options stands on the command line, before which a parameter does not count.
func (p *openMPIParser) optionGiven(options string) bool {
	return slices.ContainsFunc(strings.Fields(options), func(o string) bool { return p.Given[o] })
}

func (p *openMPIParser) prteParam(v []string) error {
	if err := parameterName(v[0]); err != nil {
		return err
	}
	return p.ownParam(givenParam{v[0], unquoted(v[1]), "--prtemca"}, true)
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

// exportList gives ranks the variables of mca_base_env_list, for all programs. What a parameter has for one comes before it.
func (p *openMPIParser) exportList() error {
	var listed []string
	for item := range strings.SplitSeq(p.envList, cmp.Or(p.envDelimiter, ";")) {
		if item == "" {
			continue
		}
		env, err := p.exported(item)
		if err != nil {
			return fmt.Errorf("mca_base_env_list: %w", err)
		}
		listed = append(listed, env...)
	}
	p.ForAll = append(p.ForAll, listed...)
	return nil
}

// unquoted takes off the quotes that Open MPI takes off a parameter's value.
func unquoted(v string) string {
	if len(v) >= 2 && v[0] == '"' && v[len(v)-1] == '"' {
		return v[1 : len(v)-1]
	}
	return v
}
