package kubectl

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Line is what a command line said.
type Line struct {
	Command string   // of mpiup
	Kind    string   // of the job, as in Kinds; "": any
	Job     string   // its name
	Words   []string // for the command, behind its flags
	Help    bool

	Container string // "": kubectl's choice
	Mpiup     string // path of mpiup in the container; "": as the pod's command has it, else on PATH
	Pod       string // "": the one that launches
	Input     bool   // standard input goes to the command
	Terminal  bool   // and it has one
	Previous  bool   // logs of the container before its last restart
	Follow    bool   // logs that are still written

	where []string // flags for every kubectl
}

// Commands are those of mpiup that go to a pod, or read its log, with what each is for.
var Commands = map[string]string{
	"peers": "who is there, and what runs", "ps": "what each rank does", "top": "for whom the others wait", "stacks": "where each rank is",
	"doctor": "look at the job's pods and the network between them", "exec": "run a command in one of the job's pods",
	"shutdown": "end the job's agents with exit code 0",
	"report":   "what remains of the run, from the launcher's log", "logs": "the lines of the launcher's log by rank, host, stream, time and level",
	"why":     "why the job failed, from the launcher's log",
	"support": "put what helps others to help into one file here",
}

// Reads says that a command reads the launcher's log, and needs no agent.
func (l *Line) Reads() bool {
	return l.Command == "logs" || l.Command == "report" || l.Command == "why"
}

// Collects says that a command reads the log, and asks what still runs, as far as it answers.
func (l *Line) Collects() bool { return l.Command == "support" }

// flags that take a value, with their short names, and switches.
var (
	valued = map[string]string{
		"-n":           "--namespace",
		"-c":           "--container",
		"--namespace":  "",
		"--context":    "",
		"--kubeconfig": "",
		"--cluster":    "",
		"--user":       "",
		"--as":         "",
		"--container":  "",
		"--mpiup":      "",
		"--pod":        "",
	}
	switches = map[string]string{
		"-i":         "--stdin",
		"-t":         "--tty",
		"-it":        "--stdin --tty",
		"-ti":        "--stdin --tty",
		"-f":         "--follow",
		"-p":         "--previous",
		"-h":         "--help",
		"--stdin":    "--stdin",
		"--tty":      "--tty",
		"--follow":   "--follow",
		"--previous": "--previous",
		"--help":     "--help",
	}
)

// Parse reads the words after kubectl-mpiup. Flags of kubectl may stand anywhere before "--". Others are the command's own, as is all behind "--".
func Parse(args []string) (l Line, err error) {
	var words []string
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		if word == "--" {
			if l.Command == "exec" {
				words = append(words, word)
			}
			words = append(words, args...)
			break
		}
		name, value, joined := strings.Cut(word, "=")
		long, takes := valued[name]
		if long != "" {
			name = long
		}
		switch {
		case takes && !joined && len(args) == 0, takes && joined && value == "":
			return Line{}, fmt.Errorf("%s needs a value", word)
		case takes:
			if !joined {
				value, args = args[0], args[1:]
			}
			l.set(name, value)
		case switches[word] != "" && l.has(word):
			for s := range strings.FieldsSeq(switches[word]) {
				l.set(s, "")
			}
		case strings.HasPrefix(word, "-"):
			words = append(words, word)
		case l.Command == "":
			if l.Command = word; Commands[word] == "" {
				return Line{}, fmt.Errorf("%.40q is none of the commands for a job: %s", word, strings.Join(slices.Sorted(maps.Keys(Commands)), ", "))
			}
		case l.Job == "":
			if err := l.name(word); err != nil {
				return Line{}, err
			}
		default:
			words = append(words, word)
		}
	}
	switch l.Words = words; {
	case l.Help || l.Command == "" && len(words) == 0:
		l.Help = true
	case l.Command == "":
		return Line{}, fmt.Errorf("%.40s stands before the command; write kubectl mpiup COMMAND JOB %.40s", words[0], words[0])
	case l.Job == "":
		return Line{}, fmt.Errorf("which job? write kubectl mpiup %s JOB, or KIND/JOB as in mpijob/pi", l.Command)
	case l.Pod != "" && !isName(l.Pod):
		return Line{}, fmt.Errorf("%.80q is no name of a pod", l.Pod)
	case l.Command == "exec" && len(words) == 0:
		return Line{}, fmt.Errorf("exec: what is to run, and where? write kubectl mpiup exec %s HOST -- COMMAND", l.Job)
	}
	return l, nil
}

// has says whether a switch is one of kubectl's with this command: mpiup's own may have its letter.
func (l *Line) has(word string) bool {
	switch word {
	case "-h", "--help":
		return true
	case "-f", "--follow":
		return l.Reads()
	case "-p", "--previous":
		return l.Reads() || l.Collects()
	}
	return l.Command == "exec"
}

func (l *Line) set(name, value string) {
	switch name {
	case "--container":
		l.Container = value
	case "--mpiup":
		l.Mpiup = value
	case "--pod":
		l.Pod = value
	case "--stdin":
		l.Input = true
	case "--tty":
		l.Terminal = true
	case "--follow":
		l.Follow = true
	case "--previous":
		l.Previous = true
	case "--help":
		l.Help = true
	default:
		l.where = append(l.where, name+"="+value)
	}
}

// name reads JOB or KIND/JOB.
func (l *Line) name(word string) error {
	kind, job, named := strings.Cut(word, "/")
	if !named {
		kind, job = "", word
	}
	if named {
		i := slices.IndexFunc(Kinds, func(k Kind) bool { return slices.Contains(k.names, strings.ToLower(kind)) })
		if i < 0 {
			var all []string
			for _, k := range Kinds {
				all = append(all, k.names[0])
			}
			return fmt.Errorf("%.40q is no kind of job that mpiup knows: %s", kind, strings.Join(all, ", "))
		}
		kind = Kinds[i].Name
	}
	if !isName(job) {
		return fmt.Errorf("%.80q is no name of a job", job)
	}
	l.Kind, l.Job = kind, job
	return nil
}

// isName says that s may be an object's name, and so stand in a selector.
func isName(s string) bool {
	return s != "" && len(s) <= 253 && s[0] != '-' && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-.") == ""
}

// Namespace is the one that was named; "": the user's own.
func (l *Line) Namespace() string {
	for _, w := range slices.Backward(l.where) {
		if v, ok := strings.CutPrefix(w, "--namespace="); ok {
			return v
		}
	}
	return ""
}

// Exec is the words of the kubectl that runs the command in a pod; of one that collects, those before each command of mpiup.
func (l *Line) Exec(p *Pod) []string {
	words := append([]string{"exec"}, l.where...)
	if l.Collects() { // whatever it asks stands behind
		return append(append(words, l.in(p)...), "--", l.mpiup(p))
	}
	if l.Input || l.Command == "exec" { // which reads standard input in any case
		words = append(words, "--stdin")
	}
	if l.Terminal {
		words = append(words, "--tty")
	}
	words = append(append(words, l.in(p)...), "--", l.mpiup(p), l.Command)
	if l.Terminal {
		words = append(words, "--tty")
	}
	return append(words, l.Words...)
}

// Logs is the words of the kubectl that prints a pod's log.
func (l *Line) Logs(p *Pod) []string {
	words := append([]string{"logs"}, l.where...)
	if l.Previous {
		words = append(words, "--previous")
	}
	if l.Follow {
		words = append(words, "--follow")
	}
	return append(words, l.in(p)...)
}

func (l *Line) in(p *Pod) []string {
	if l.Container != "" {
		return []string{p.Metadata.Name, "--container=" + l.Container}
	}
	return []string{p.Metadata.Name}
}
