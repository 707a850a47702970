package ssh

import (
	"cmp"
	"strings"
	"sync"
)

// row is what an option means here.
type row struct {
	set     func(p *parser, value string) error // nil: accepted without effect
	refused string                              // "": not refused; else the end of a sentence that begins with the option
}

const (
	noForward = "asks for port forwarding, which mpiup does not do: connect to the pod's port itself, or use kubectl port-forward"
	noFiles   = "is of configuration files, of which mpiup reads IdentityFile only: write the settings themselves"
	noControl = "speaks to another ssh process, and mpiup's have nothing to share: run the command by itself"
)

// options are OpenSSH's letters (ssh(1) of 9.x).
var options = sync.OnceValue(func() map[byte]row {
	return map[byte]row{
		'f': flag(func(l *Line) { l.Background = true }),
		'N': flag(func(l *Line) { l.Nothing = true }),
		'n': flag(func(l *Line) { l.NoStdin = true }),
		'q': flag(func(l *Line) { l.Quiet = true }),
		'T': {set: func(p *parser, _ string) error { p.line.TTY, p.ttySaid = TTYNever, true; return nil }},
		'V': flag(func(l *Line) { l.Version = true }),
		'v': flag(func(l *Line) { l.Verbose = min(l.Verbose+1, 3) }),
		't': {set: func(p *parser, _ string) error {
			if p.asked {
				p.line.TTY = TTYForce
			} else {
				p.line.TTY = TTYAsked
			}
			p.asked, p.ttySaid = true, true
			return nil
		}},
		'l': {set: (*parser).user},
		'o': {set: (*parser).config},
		'i': {set: (*parser).identity},
		'F': {set: func(p *parser, v string) error { p.line.Config = v; return nil }},

		// How to get there and whom to trust, which mpiup knows otherwise.
		'1': {}, '2': {}, '4': {}, '6': {}, 'A': {}, 'a': {}, 'C': {}, 'K': {}, 'k': {}, 'X': {}, 'x': {}, 'Y': {}, 'y': {}, 'g': {}, 'M': {},
		'B': {}, 'b': {}, 'c': {}, 'E': {}, 'e': {}, 'I': {}, 'J': {}, 'm': {}, 'P': {}, 'S': {}, 'p': {set: (*parser).port},

		'D': {refused: noForward}, 'L': {refused: noForward}, 'R': {refused: noForward}, 'W': {refused: noForward},
		'w': {refused: "asks for a tunnel device, which mpiup does not make"},
		'O': {refused: noControl},
		'G': {refused: "prints ssh's configuration, of which mpiup reads IdentityFile only: see mpiup exec --help"},
		'Q': {refused: "lists ssh's algorithms, and mpiup uses TLS 1.3"},
		's': {refused: "asks for a subsystem such as sftp, which agents do not have: use tar over ssh, or kubectl cp"},
	}
})

// Why says why an entry of Line.Without has no effect.
func Why(without string) string {
	word, _, _ := strings.Cut(without, " ")
	if len(word) > 2 { // a setting
		word = strings.ToLower(word)
	}
	return cmp.Or(reasons[word], "agents are found and trusted by the job's own means")
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
	"-C": "nothing is compressed", "compression": "nothing is compressed",
	"serveraliveinterval": "agents and launchers ask each other anyway", "serveralivecountmax": "agents and launchers ask each other anyway",
	"-M": "there is no connection to share", "-S": "there is no connection to share", "controlmaster": "there is no connection to share",
	"controlpath": "there is no connection to share", "controlpersist": "there is no connection to share",
}

func flag(set func(*Line)) row {
	return row{set: func(p *parser, _ string) error { set(&p.line); return nil }}
}
