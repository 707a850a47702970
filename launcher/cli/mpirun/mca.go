package mpirun

import (
	"fmt"
	"slices"
	"strings"
)

// launcherParam is a parameter of Open MPI's launcher that means something here.
type launcherParam struct {
	names   string // PRRTE's name stands beside Open MPI 4's
	options string // what goes before it on the command line
	means   string
	set     func(p *parser, value string) error
}

func onParam(set func(l *Line, yes bool)) func(*parser, string) error {
	return func(p *parser, v string) error { set(&p.line, truth(v)); return nil }
}

// option is a parameter that is another way to write an option.
func option(set func(*parser, []string) error) func(*parser, string) error {
	return func(p *parser, v string) error { return set(p, []string{v}) }
}

const mapping = "map-by N pernode bynode byslot bycore bysocket npersocket ppr"

// launcherParams has the parameters of a launcher's frameworks that mean something; the others have
// no effect.
func launcherParams() []launcherParam {
	return []launcherParam{
		{"orte_default_hostfile prte_default_hostfile", "hostfile host", "the hostfile, where no hosts are named", func(p *parser, v string) error {
			p.hostfile = v
			return nil
		}},
		{"orte_set_default_slots prte_set_default_slots", "", "slots of hosts that are named without", func(p *parser, v string) (err error) {
			p.slots, err = number(v, 1, maxRanks)
			return err
		}},
		{"rmaps_base_oversubscribe", "oversubscribe nooversubscribe", "`--oversubscribe`", onParam(func(l *Line, yes bool) { l.Oversubscribe = yes })},
		{"rmaps_base_no_schedule_local", "nolocal", "`--nolocal`", onParam(func(l *Line, yes bool) { l.NoLocal = yes })},
		{"rmaps_base_mapping_policy rmaps_default_mapping_policy", mapping, "`--map-by`", option((*parser).mapBy)},
		{"rmaps_base_ranking_policy rmaps_default_ranking_policy", "rank-by", "`--rank-by`", option((*parser).rankBy)},
		{"rmaps", "", "`seq`: `--map-by seq`", func(p *parser, v string) error {
			if p.seqMapper = v == "seq"; !p.seqMapper {
				p.without("parameter rmaps " + v)
			}
			return nil
		}},
		{"rmaps_ppr_n_pernode", mapping, "`-N`", option((*parser).perNode)},
		{"rmaps_ppr_n_persocket", mapping, "`--npersocket`", option((*parser).perSocket)},
		{"rmaps_base_cpus_per_rank rmaps_base_cpus_per_proc", "cpus-per-proc", "`--cpus-per-proc`", option((*parser).cpusPerRank)},
		{"hwloc_base_binding_policy hwloc_default_binding_policy", "bind-to bind-to-core bind-to-socket", "`--bind-to`", option((*parser).bindTo)},
		{"rmaps_base_display_map", "display-map", "`--display-map`", onParam(func(l *Line, yes bool) { l.DisplayMap = yes })},
		{"orte_tag_output", "tag-output", "`--tag-output`", onParam(func(l *Line, yes bool) { l.TagOutput = yes })},
		{"orte_timestamp_output", "timestamp-output", "`--timestamp-output`", onParam(func(l *Line, yes bool) { l.Timestamps = yes })},
		{"orte_output_filename", "output-filename output-directory output", "`--output-filename`", option((*parser).outputName)},
		{"orte_abort_on_non_zero_status", "", "0: a rank's exit code other than 0 ends nothing, and the job's is 0", onParam(func(l *Line, yes bool) { l.KeepOn = !yes })},
		{"orte_enable_recovery", "enable-recovery continuous disable-recovery", "`--enable-recovery`", onParam(func(l *Line, yes bool) { l.Recover = yes })},
		{"mca_base_env_list", "", "variables for the ranks, `NAME;NAME=value`, as `-x` gives them", (*parser).envParam},
		{"orte_rankfile rmaps_rank_file_path", "rankfile", "`--rankfile`", option((*parser).rankFile)},
		{"rmaps_rank_file_physical", "", "CPUs in a rankfile are the kernel's", func(p *parser, v string) error { p.kernelNumbers = truth(v); return nil }},
		{"hwloc_base_cpu_set hwloc_base_cpu_list hwloc_default_cpu_list", "cpu-set", "`--cpu-set`", option((*parser).cpuSet)},
		{"hwloc_base_use_hwthreads_as_cpus hwloc_use_hwthreads_as_cpus", "use-hwthread-cpus", "`--use-hwthread-cpus`", onParam(func(l *Line, yes bool) { l.Binding.HWThreads = yes })},
		{"hwloc_base_report_bindings", "report-bindings", "`--report-bindings`", onParam(func(l *Line, yes bool) { l.Bindings = yes })},
	}
}

// launcherFrameworks are those of Open MPI's own launcher; their parameters begin with the name and
// "_", or are the name alone.
var launcherFrameworks = []string{"plm", "orte", "oob", "ras", "rmaps", "odls", "routed", "rml", "ess", "state", "errmgr",
	"grpcomm", "iof", "filem", "snapc", "schizo", "prte", "rtc", "regx", "dfs", "notifier", "sstore"}

// ofLauncher says that a parameter is not the ranks' business.
func ofLauncher(name string) bool {
	return slices.ContainsFunc(launcherFrameworks, func(f string) bool { return name == f || strings.HasPrefix(name, f+"_") }) ||
		slices.ContainsFunc(launcherParams(), func(l launcherParam) bool { return slices.Contains(strings.Fields(l.names), name) }) ||
		strings.HasSuffix(name, "_server_uri") || strings.HasPrefix(name, "mca_base_env_list")
}

// truth is a switch's value; Open MPI takes every number but 0 for on.
func truth(v string) bool {
	return !slices.Contains([]string{"", "0", "false", "no", "f", "n", "off", "disabled"}, strings.ToLower(v))
}

// param is --mca NAME VALUE. What stands before the first program is for all, as Open MPI 4.1 has it
// whatever its manual says. The same parameter with two values is an error.
func (p *parser) param(v []string) error {
	if !p.first {
		return p.parameter(v, p.own, func(kv string) { p.ctx.Env = append(p.ctx.Env, kv) })
	}
	return p.globalParam(v)
}

func (p *parser) globalParam(v []string) error {
	return p.parameter(v, p.params, func(kv string) { p.common = append(p.common, kv) })
}

func (p *parser) parameter(v []string, seen map[string]string, give func(kv string)) error {
	name, value := v[0], unquoted(v[1])
	if err := parameterName(name); err != nil {
		return err
	}
	if old, twice := seen[name]; twice && old != value {
		return fmt.Errorf("parameter %s has the value %.60q already; give it once", name, old)
	}
	seen[name] = value
	if !ofLauncher(name) {
		give("OMPI_MCA_" + name + "=" + value)
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
func (p *parser) ownParam(name, value string) error {
	for _, l := range launcherParams() {
		if slices.Contains(strings.Fields(l.names), name) {
			for _, o := range strings.Fields(l.options) {
				if p.given[o] {
					return nil
				}
			}
			p.given["parameter "+l.names] = true
			return l.set(p, value)
		}
	}
	p.without("parameter " + name)
	return nil
}

// prteParam is --prtemca.
func (p *parser) prteParam(v []string) error {
	if err := parameterName(v[0]); err != nil {
		return err
	}
	return p.ownParam(v[0], unquoted(v[1]))
}

func (p *parser) pmixParam(v []string) error {
	if err := parameterName(v[0]); err != nil {
		return err
	}
	kv := "PMIX_MCA_" + v[0] + "=" + unquoted(v[1])
	if p.first {
		p.common = append(p.common, kv)
	} else {
		p.ctx.Env = append(p.ctx.Env, kv)
	}
	return nil
}

// envParam is a list of variables, for all programs.
func (p *parser) envParam(list string) error {
	own := p.ctx.Env
	p.ctx.Env = p.common
	defer func() { p.common, p.ctx.Env = p.ctx.Env, own }()
	for item := range strings.SplitSeq(list, ";") {
		if item != "" {
			if err := p.export([]string{item}); err != nil {
				return err
			}
		}
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
