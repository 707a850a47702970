package mpirun

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// parameters takes the launcher's parameters from the environment, where the operators put them.
// Hosts are found elsewhere, in the operators' order.
func (p *openMPIParser) parameters() error {
	for _, prefix := range []string{"OMPI_MCA_", "PRTE_MCA_"} {
		prrte := prefix == "PRTE_MCA_"
		for _, l := range p.launcherParams() {
			for _, name := range strings.Fields(l.Names) {
				v, ok := p.Out.Lookup(prefix + name)
				if !ok || strings.Contains(name, "hostfile") || p.Given["parameter "+l.Names] || l.prrte && !prrte {
					continue
				}
				if err := p.ownParam(givenParam{name, v, prefix + name}, prrte); err != nil {
					return fmt.Errorf("%s%s=%.100s: %w", prefix, name, v, err)
				}
			}
		}
	}
	p.noteVariables()
	return nil
}

// noteVariables remembers the parameters of the environment that are not done and may have to be spoken of. Open MPI 4 reads OMPI_MCA_ ones, PRRTE
// its own.
func (p *openMPIParser) noteVariables() {
	for _, kv := range p.Out.Environ {
		name, value, _ := strings.Cut(kv, "=")
		version := "4"
		param, found := strings.CutPrefix(name, "OMPI_MCA_")
		if !found {
			version = "5"
			param, found = strings.CutPrefix(name, "PRTE_MCA_")
		}
		if _, given := p.params[paramOfAll(param)]; found && !given && spokenOf(findOtherParam(param, version)) {
			p.noted = append(p.noted, givenParam{param, value, name})
		}
	}
}

// ofOtherJob are variables of a job that this launcher is a rank of, and the leave that root needs.
var ofOtherJob = []string{"OMPI_COMM_WORLD_", "OMPI_UNIVERSE_SIZE", "OMPI_NUM_APP_CTX", "OMPI_FIRST_RANKS",
	"OMPI_APP_CTX_NUM_PROCS", "OMPI_FILE_LOCATION", "OMPI_COMMAND", "OMPI_ARGV", "OMPI_WORLD_", "OMPI_ALLOW_RUN_AS_ROOT"}

// Sends says whether a variable of ours goes along: Open MPI's own do, and with
// --fwd-environment what Hydra would send.
func Sends(l *line.Line, name string) bool {
	if param, ok := strings.CutPrefix(name, "OMPI_MCA_"); ok {
		return !ofLauncher(param) && param != "initial_wdir"
	}
	switch {
	case strings.HasPrefix(name, "OMPI_"):
		return !line.Begins(name, ofOtherJob)
	case strings.HasPrefix(name, "PRTE_"):
		return !strings.HasPrefix(name, "PRTE_MCA_") && name != "PRTE_LAUNCHED"
	}
	return strings.HasPrefix(name, "PMIX_MCA_") || l.ForwardAll && (line.Inherit{}).Sends(name)
}

// export is -x. A name that is not set is a warning, as with Open MPI. Values are taken as they are,
// quotes too.
func (p *openMPIParser) export(v []string) error {
	defs, err := p.exported(v[0])
	p.Ctx.Env = append(p.Ctx.Env, defs...)
	return err
}

func (p *openMPIParser) exported(def string) (defs []string, err error) {
	name, _, _ := strings.Cut(def, "=")
	if name == "" || strings.ContainsRune(def, 0) {
		return nil, errors.New("a variable has a name, and no zero byte")
	}
	defs = line.Exported(def, p.Out.Lookup, p.Out.Environ)
	if defs == nil && !strings.HasSuffix(name, "*") {
		p.Warn("could not find environment variable %.100q, so ranks do not get it (-x)", name)
	}
	for _, kv := range defs {
		err = cmp.Or(err, line.Fits(kv))
	}
	return defs, err
}

// setPrefix is what Open MPI does for --prefix DIR on a remote host.
func (p *openMPIParser) setPrefix(c *line.Context) {
	if c.Prefix == "" {
		return
	}
	for _, d := range []struct{ name, dir string }{{"PATH", "bin"}, {"LD_LIBRARY_PATH", "lib"}} {
		value, rest := path.Join(c.Prefix, d.dir), ""
		if v, ok := p.Out.Lookup(d.name); ok {
			rest = v
		}
		for _, kv := range c.Env {
			if v, ok := strings.CutPrefix(kv, d.name+"="); ok {
				rest = v
			}
		}
		if rest != "" {
			value += ":" + rest
		}
		c.Env = line.Distinct(append(c.Env, d.name+"="+value))
	}
	c.Prefix = ""
}
