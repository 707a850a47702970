package ssh

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
	noControl = "speaks to another ssh process, and mpiup's have nothing to share: run the command by itself"
)

// options are OpenSSH's letters (ssh(1) of 9.x).
var options = map[byte]option{
	'f': {false, flag(func(l *Line) { l.Background = true })},
	'N': {false, flag(func(l *Line) { l.Nothing = true })},
	'n': {false, flag(func(l *Line) { l.NoStdin = true })},
	'q': {false, flag(func(l *Line) { l.Quiet = true })},
	'T': {false, flag(func(l *Line) { l.TTY = TTYNever })},
	'V': {false, flag(func(l *Line) { l.Version = true })},
	'v': {false, flag(func(l *Line) { l.Verbose = min(l.Verbose+1, 3) })},
	't': {false, flag(func(l *Line) {
		if l.TTY == TTYAsked {
			l.TTY = TTYForce
		} else if l.TTY != TTYForce {
			l.TTY = TTYAsked
		}
	})},
	'l': {true, row{set: func(p *parser, v string) error { p.line.User = v; return nil }}},
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

func flag(set func(*Line)) row {
	return row{set: func(p *parser, _ string) error { set(&p.line); return nil }}
}
