package mpirun

import (
	"fmt"
	"slices"
	"strings"
)

// launcherParams are parameters of Open MPI's launcher that mean something here; PRRTE's name of
// one stands beside Open MPI 4's. The others of a launcher's frameworks have no effect.
var launcherParams = []struct {
	names string
	means string
	set   func(p *parser, value string) error
}{
	{"orte_default_hostfile prte_default_hostfile", "the hostfile, where none is named", func(p *parser, v string) error {
		if p.hostfile == "" && len(p.listed) == 0 {
			p.hostfile = v
		}
		return nil
	}},
	{"rmaps_base_oversubscribe rmaps_default_mapping_policy_oversubscribe", "--oversubscribe", func(p *parser, v string) error {
		p.line.Oversubscribe = truth(v)
		return nil
	}},
	{"rmaps_base_mapping_policy rmaps_default_mapping_policy", "--map-by", func(p *parser, v string) error { return p.mapBy([]string{v}) }},
	{"hwloc_base_binding_policy hwloc_default_binding_policy", "--bind-to", func(p *parser, v string) error { return p.bindTo([]string{v}) }},
	{"orte_tag_output", "--tag-output", func(p *parser, v string) error { p.line.TagOutput = truth(v); return nil }},
	{"orte_timestamp_output", "--timestamp-output", func(p *parser, v string) error { p.line.Timestamps = truth(v); return nil }},
	{"orte_abort_on_non_zero_status", "0: a rank's exit code other than 0 ends nothing", func(p *parser, v string) error {
		p.line.KeepOn = !truth(v)
		return nil
	}},
}

// launcherFrameworks begin the names of parameters that concern Open MPI's own launcher.
var launcherFrameworks = []string{"plm_", "orte_", "oob_", "ras_", "rmaps_", "odls_", "routed_", "rml_", "ess_", "state_", "errmgr_",
	"grpcomm_", "iof_", "filem_", "snapc_", "schizo_", "prte_", "hwloc_base_binding_policy", "hwloc_default_binding_policy"}

func truth(v string) bool {
	v = strings.ToLower(v)
	return v != "0" && v != "false" && v != "no" && v != "f" && v != "n" && v != ""
}

// param is --mca NAME VALUE. The same parameter twice is an error of Open MPI 4; with one value it
// does no harm.
func (p *parser) param(v []string) error {
	name, value := v[0], unquoted(v[1])
	if name == "" || strings.ContainsAny(name, "= \x00") {
		return fmt.Errorf("%.60q is no parameter's name", name)
	}
	if old, twice := p.params[name]; twice && old != value && p.first {
		return fmt.Errorf("parameter %s has the value %.60q already; give it once", name, old)
	}
	p.params[name] = value
	for _, l := range launcherParams {
		if slices.Contains(strings.Fields(l.names), name) {
			return l.set(p, value)
		}
	}
	if slices.ContainsFunc(launcherFrameworks, func(f string) bool { return strings.HasPrefix(name, f) }) {
		p.line.Without = append(p.line.Without, "parameter "+name)
		return nil
	}
	p.ctx.Env = setVar(p.ctx.Env, "OMPI_MCA_"+name+"="+value)
	return nil
}

func (p *parser) globalParam(v []string) error {
	before := p.ctx.Env
	p.ctx.Env = nil
	err := p.param(v)
	for _, kv := range p.ctx.Env {
		p.common = setVar(p.common, kv)
	}
	p.ctx.Env = before
	return err
}

func (p *parser) pmixParam(v []string) error {
	p.ctx.Env = setVar(p.ctx.Env, "PMIX_MCA_"+v[0]+"="+unquoted(v[1]))
	return nil
}

// unquoted takes off the quotes that Open MPI 5 takes off.
func unquoted(v string) string {
	if len(v) >= 2 && v[0] == '"' && v[len(v)-1] == '"' {
		return v[1 : len(v)-1]
	}
	return v
}

// parameters takes the launcher's parameters from the environment, where the operators put them.
func (p *parser) parameters() error {
	if p.line.Family != OpenMPI {
		return nil
	}
	for _, prefix := range []string{"OMPI_MCA_", "PRTE_MCA_"} {
		for _, l := range launcherParams {
			for _, name := range strings.Fields(l.names) {
				v, ok := p.out.Lookup(prefix + name)
				if !ok || strings.Contains(name, "hostfile") { // hosts are found in the operators' order
					continue
				}
				if err := l.set(p, v); err != nil {
					return fmt.Errorf("%s%s=%s: %w", prefix, name, v, err)
				}
			}
		}
	}
	return nil
}
