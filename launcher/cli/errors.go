package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/mpiup/mpiup/docs"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// insteadOf answers flags of mpirun, mpiexec, srun and torchrun that mpiup has no use for. What says "write" begins with a
// flag, and is for commands that have it; behind | stands what is for others.
var insteadOf = map[string]string{
	"allow-run-as-root": "leave it out, any user may run",
	"version":           "write mpiup --version",

	"address": "write --listen for where an agent listens|write --host for where agents are",
	"addr":    "write --listen for where an agent listens|write --host for where agents are",
	"bind":    "write --listen for where an agent listens|write --bind-to for ranks and their CPUs",
	"ip":      "write --listen for where an agent listens|write --host for where agents are",
	"listen":  "write --host for where agents are: only mpiup agent listens",
	"port":    "leave it out, an agent's port is found; --listen and --port are mpiup agent's",

	"mca":              "write -x OMPI_MCA_name=value",
	"genv":             "write -x NAME=value",
	"env":              "write -x NAME=value",
	"e":                "write -x NAME=value",
	"machinefile":      "write --hostfile",
	"nodefile":         "write --hostfile",
	"f":                "write --hostfile",
	"nodelist":         "write --host",
	"w":                "write --host",
	"slots":            "write --host with the slots behind the hosts, w0:8,w1:8, or slots=8 into the hostfile",
	"nodes":            "write --host w0,w1 for the hosts, and -N for the ranks on each",
	"nnodes":           "write --host w0,w1 for the hosts, and -N for the ranks on each",
	"npernode":         "write -N",
	"perhost":          "write -N",
	"nproc-per-node":   "write -N",
	"ntasks-per-node":  "write -N",
	"tasks-per-node":   "write -N",
	"ntasks":           "write -n",
	"c":                "write --map-by slot:PE=N for the CPUs of each rank, as srun's -c; -n for ranks, as docker's",
	"npersocket":       "write --map-by ppr:N:socket",
	"cpus-per-task":    "write --map-by slot:PE=N",
	"cpus-per-proc":    "write --map-by slot:PE=N",
	"cpus-per-rank":    "write --map-by slot:PE=N",
	"cpu-bind":         "write --bind-to",
	"gpus-per-task":    "write --gpus-per-rank",
	"gpus":             "write --gpus-per-rank",
	"prepend-rank":     "write --tag-output",
	"label":            "write --tag-output",
	"l":                "write --tag-output",
	"timestamp-output": "write --timestamp",
	"output-filename":  "write --output-dir",
	"wd":               "write --wdir",
	"chdir":            "write --wdir",

	"compute":      "write --check COMMAND for a test of your own on every host",
	"compute-time": "write --check COMMAND for a test of your own on every host, and --check-time",

	"seal": "write --report with a folder on a volume; mpiup why reads logs",

	"svg": "mpiup topo prints text and JSON; mpiup run --dry-run --svg FILE draws hosts with their ranks",

	"master-addr":   "leave it out, ranks are told (mpiup help frameworks)",
	"master-port":   "leave it out, ranks are told (mpiup help frameworks)",
	"node-rank":     "leave it out, ranks are told (mpiup help frameworks)",
	"rdzv-backend":  "leave it out, ranks are told (mpiup help frameworks)",
	"rdzv-endpoint": "leave it out, ranks are told (mpiup help frameworks)",
}

// instead is what to do without a flag, in a command with the flags fs; "": nothing is known.
func instead(fs *pflag.FlagSet, name string) string {
	for text := range strings.SplitSeq(insteadOf[strings.ReplaceAll(name, "_", "-")], "|") {
		rest, isFlag := strings.CutPrefix(text, "write -")
		flag, _, _ := strings.Cut(strings.TrimPrefix(rest, "-"), " ")
		if !isFlag || fs.Lookup(flag) != nil || len(flag) == 1 && fs.ShorthandLookup(flag) != nil {
			return text
		}
	}
	return ""
}

// FlagError turns an error of fs.Parse into a sentence that names the flag and what to write.
// Errors that are not pflag's are returned as they are.
func FlagError(fs *pflag.FlagSet, err error) error {
	var (
		unknown  *pflag.NotExistError
		valued   *pflag.ValueRequiredError
		invalid  *pflag.InvalidValueError
		badWords *pflag.InvalidSyntaxError
	)
	switch {
	case err == nil || errors.Is(err, pflag.ErrHelp):
		return err
	case errors.As(err, &unknown):
		return unknownFlag(fs, unknown)
	case errors.As(err, &valued):
		return fmt.Errorf("%s%s needs a value", line.Hyphens(valued.GetSpecifiedName()), valued.GetSpecifiedName())
	case errors.As(err, &invalid):
		return fmt.Errorf("%s: %w", shown(invalid.GetFlag()), plainly(invalid))
	case errors.As(err, &badWords):
		return fmt.Errorf("%s is not a flag", visible.Clip(badWords.GetSpecifiedFlag()))
	}
	return err
}

// plainly is what is wrong with a value; pflag's own types say it in Go's words.
func plainly(invalid *pflag.InvalidValueError) error {
	var number *strconv.NumError
	switch err := invalid.Unwrap(); {
	case !errors.As(err, &number):
		return err
	case errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("%s is out of range", visible.Clip(invalid.GetValue()))
	case number.Func == "ParseBool":
		return fmt.Errorf("%s is neither true nor false", visible.Clip(invalid.GetValue()))
	}
	return fmt.Errorf("%s is not a number", visible.Clip(invalid.GetValue()))
}

func unknownFlag(fs *pflag.FlagSet, unknown *pflag.NotExistError) error {
	name := unknown.GetSpecifiedName()
	if short := unknown.GetSpecifiedShortnames(); short != "" {
		name = short
	}
	said := flagName(unknown)
	text := instead(fs, name)
	if text == "" && len(name) > 1 && unknown.GetSpecifiedShortnames() != "" {
		text = instead(fs, name[:1]) // -c4
	}
	if text != "" {
		return fmt.Errorf("unknown flag %s; %s", said, text)
	}
	if elsewhere := docs.Elsewhere(said); elsewhere != "" && fs.Lookup("np") != nil && fs.Lookup(strings.ReplaceAll(name, "_", "-")) == nil {
		return fmt.Errorf("unknown flag %s%s", said, elsewhere)
	}
	if near := nearest(fs, name); near != "" {
		return fmt.Errorf("unknown flag %s; did you mean %s?", said, near)
	}
	return fmt.Errorf("unknown flag %s; --help lists the flags (a flag of the program stands after the program)", said)
}

// Meant is what a word may mean that is none of mpiup's commands; "": nothing is known.
func Meant(word string, commands []string) string {
	switch word {
	case "top", "status", "watch":
		return "mpiup ps --watch"
	case "list", "jobs":
		return "mpiup peers"
	case "kill", "stop", "cancel":
		return "Ctrl-C in the run; mpiup shutdown ends the job's agents"
	case "start", "launch", "srun":
		return "mpiup run"
	case "kubectl", "kubectl-mpiup":
		return "kubectl mpiup COMMAND (mpiup help kubectl)"
	}
	switch {
	case strings.HasSuffix(word, ".py"):
		return "mpiup run -n N python3 " + word
	case strings.ContainsAny(word, "/."):
		return "mpiup run -n N " + word
	}
	if near := line.Nearest(word, commands); near != "" {
		return "mpiup " + near
	}
	return ""
}

// flagName is the flag as the user wrote it.
func flagName(unknown *pflag.NotExistError) string {
	if short := unknown.GetSpecifiedShortnames(); short != "" {
		return "-" + clip40(short)
	}
	return "--" + clip40(unknown.GetSpecifiedName())
}

func clip40(s string) string {
	q := visible.Clip(s)
	if len(s) > 40 {
		return q[1:len(q)-4] + "..."
	}
	return q[1 : len(q)-1]
}

// shown is the flag as help lists it first.
func shown(f *pflag.Flag) string {
	if f.Shorthand != "" && f.Name != "host" {
		return "-" + f.Shorthand
	}
	return "--" + f.Name
}

// nearest is the known flag fewest edits away from name, if that is near enough to be meant.
func nearest(fs *pflag.FlagSet, name string) string {
	var known []string
	fs.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	})
	for alias, full := range aliases {
		if fs.Lookup(full) != nil && len(alias) > 2 {
			known = append(known, alias)
		}
	}
	if found := line.Nearest(name, known); found != "" {
		return "--" + found
	}
	return ""
}
