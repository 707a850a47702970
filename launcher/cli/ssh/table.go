package ssh

import "strings"

// row is what an option means here.
type row struct {
	set     func(p *parser, value string) error // nil: accepted without effect
	refused string                              // "": not refused; else the end of a sentence that begins with the option
}

type option struct {
	takesValue bool
	row
}

const (
	noForward = "asks for port forwarding, which mpiup does not do: connect to the pod's port itself, or use kubectl port-forward"
	noFiles   = "is of configuration files, and mpiup reads none: write the settings themselves"
	noControl = "speaks to another ssh process, and mpiup's have nothing to share: run the command by itself"
)

// options are OpenSSH's letters (ssh(1) of 9.x).
var options = map[byte]option{
	'f': {false, flag(func(l *Line) { l.Background = true })},
	'N': {false, flag(func(l *Line) { l.Nothing = true })},
	'n': {false, flag(func(l *Line) { l.NoStdin = true })},
	'q': {false, flag(func(l *Line) { l.Quiet = true })},
	'T': {false, row{set: func(p *parser, _ string) error { p.line.TTY, p.ttySaid = TTYNever, true; return nil }}},
	'V': {false, flag(func(l *Line) { l.Version = true })},
	'v': {false, flag(func(l *Line) { l.Verbose = min(l.Verbose+1, 3) })},
	't': {false, row{set: func(p *parser, _ string) error {
		if p.asked {
			p.line.TTY = TTYForce
		} else {
			p.line.TTY = TTYAsked
		}
		p.asked, p.ttySaid = true, true
		return nil
	}}},
	'l': {true, row{set: (*parser).user}},
	'o': {true, row{set: (*parser).config}},

	// How to get there and whom to trust, which mpiup knows otherwise.
	'1': {}, '2': {}, '4': {}, '6': {}, 'A': {}, 'a': {}, 'C': {}, 'K': {}, 'k': {}, 'X': {}, 'x': {}, 'Y': {}, 'y': {}, 'g': {}, 'M': {},
	'B': {true, row{}}, 'b': {true, row{}}, 'c': {true, row{}}, 'E': {true, row{}}, 'e': {true, row{}}, 'F': {true, row{}},
	'I': {true, row{}}, 'i': {true, row{}}, 'J': {true, row{}}, 'm': {true, row{}}, 'P': {true, row{}}, 'p': {true, row{set: (*parser).port}},
	'S': {true, row{}},

	'D': {true, row{refused: noForward}},
	'L': {true, row{refused: noForward}},
	'R': {true, row{refused: noForward}},
	'W': {true, row{refused: noForward}},
	'w': {true, row{refused: "asks for a tunnel device, which mpiup does not make"}},
	'O': {true, row{refused: noControl}},
	'G': {false, row{refused: "prints ssh's configuration, and mpiup reads none: see mpiup exec --help"}},
	'Q': {true, row{refused: "lists ssh's algorithms, and mpiup uses TLS 1.3"}},
	's': {false, row{refused: "asks for a subsystem such as sftp, which agents do not have: use tar over ssh, or kubectl cp"}},
}

// Why says why an entry of Line.Without has no effect.
func Why(without string) string {
	word, _, _ := strings.Cut(without, " ")
	if why, ok := reasons[strings.ToLower(word)]; ok && len(word) > 2 {
		return why
	}
	if why, ok := reasons[word]; ok {
		return why
	}
	return "agents are found and trusted by the job's own means"
}

const (
	noDisplay = "no display and no keys are forwarded"
	noEscapes = "there is no escape character: all input goes to the command"
	noLog     = "messages go to standard error"
	noLocal   = "nothing is run on this side"
)

// reasons are for options that a user may miss, by their first word, settings in small letters.
var reasons = map[string]string{
	"user": "an agent runs everything as its own user", "-A": noDisplay, "-X": noDisplay, "-Y": noDisplay,
	"forwardagent": noDisplay, "forwardx11": noDisplay, "forwardx11trusted": noDisplay, "-e": noEscapes, "escapechar": noEscapes,
	"enableescapecommandline": noEscapes, "-E": noLog, "-y": noLog, "syslogfacility": noLog, "logverbose": noLog,
	"localcommand": noLocal, "permitlocalcommand": noLocal, "proxycommand": noLocal,
	"-F": "no configuration is read", "-C": "nothing is compressed", "compression": "nothing is compressed",
	"serveraliveinterval": "agents and launchers ask each other anyway", "serveralivecountmax": "agents and launchers ask each other anyway",
	"-M": "there is no connection to share", "-S": "there is no connection to share", "controlmaster": "there is no connection to share",
	"controlpath": "there is no connection to share", "controlpersist": "there is no connection to share",
}

func flag(set func(*Line)) row {
	return row{set: func(p *parser, _ string) error { set(&p.line); return nil }}
}
