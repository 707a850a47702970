package ssh

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// TTY says whether the command gets a terminal.
type TTY int

// A terminal is given as ssh gives it.
const (
	TTYAuto  TTY = iota // to a login shell when standard input is a terminal
	TTYNever            // -T
	TTYAsked            // -t: when standard input is a terminal
	TTYForce            // -tt: even when it is none
)

// Line is what a command line of ssh said.
type Line struct {
	Host    string
	User    string // "": not given; an agent runs everything as its own user
	Command string // "": a login shell

	TTY        TTY
	NoStdin    bool          // -n: standard input is /dev/null
	Background bool          // -f: return once the command runs; it has no standard input
	Nothing    bool          // -N: hold the connection and run nothing
	Quiet      bool          // -q
	Verbose    int           // -v, up to three
	Version    bool          // -V: say the version and end
	Timeout    time.Duration // ConnectTimeout, for all attempts; 0: not given
	SetEnv     []string      // NAME=value, for the command
	SendEnv    []string      // patterns of variables of ours that the command gets
	Identity   []string      // -i and IdentityFile: where the job's key may be, as written
	Config     string        // -F: the configuration that may name such files; "": the user's

	Without []string // options that were accepted and have no effect here, as written
}

// Parse reads the words after ssh's own name. Errors are the user's: ssh ends with 255.
func Parse(args []string) (Line, error) {
	p := parser{args: args}
	if err := p.options(); err != nil {
		return Line{}, err
	}
	if p.line.Version {
		return p.line, nil
	}
	if len(p.args) == 0 {
		return Line{}, errors.New("which host? write ssh [options] HOST [command]")
	}
	if err := p.destination(p.args[0]); err != nil {
		return Line{}, err
	}
	p.args = p.args[1:]
	if err := p.options(); err != nil {
		return Line{}, err
	}
	return p.finish()
}

type parser struct {
	args     []string
	line     Line
	remote   string   // RemoteCommand
	realHost string   // HostName
	ignore   []string // IgnoreUnknown
	timeout  int      // ConnectTimeout, s
	attempts int      // ConnectionAttempts

	asked     bool // -t was given
	ttySaid   bool // whether there is to be a terminal was said
	levelSaid bool // LogLevel was given
}

// withValue are the letters of options with a value.
const withValue = "BbcDEeFIiJLlmOoPpQRSWw"

// options takes the options at the front of args.
func (p *parser) options() (err error) {
	p.args, err = Letters(p.args, withValue, func(letter byte, value string) error {
		r, ok := options()[letter]
		if !ok {
			return fmt.Errorf("unknown option -%c", letter)
		}
		return p.take("-"+string(letter), r, value)
	})
	return err
}

// Letters takes the options at the front of args, as getopt(3) does, and a "--" that ends them: "-Tx", "-p22", "-o X=y".
// Those of valued have the rest of their word as their value, or the next word.
func Letters(args []string, valued string, take func(letter byte, value string) error) (rest []string, err error) {
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' {
		word := args[0][1:]
		args = args[1:]
		if word == "-" {
			break
		}
		for word != "" {
			letter, value := word[0], ""
			word = word[1:]
			if strings.IndexByte(valued, letter) >= 0 {
				if value, word = word, ""; value == "" {
					if len(args) == 0 {
						return nil, fmt.Errorf("option -%c needs a value", letter)
					}
					value, args = args[0], args[1:]
				}
			}
			if err := take(letter, value); err != nil {
				return nil, err
			}
		}
	}
	return args, nil
}

func (p *parser) take(name string, r row, value string) error {
	switch {
	case r.refused != "":
		return fmt.Errorf("%s %s", name, r.refused)
	case r.set == nil:
		p.line.Without = append(p.line.Without, strings.TrimSpace(name+" "+value))
		return nil
	}
	if err := r.set(p, value); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// destination is "[user@]host" or "ssh://[user@]host[:port]".
func (p *parser) destination(word string) error {
	if strings.HasPrefix(word, "ssh://") {
		u, err := url.Parse(word)
		if err != nil || u.Hostname() == "" || u.Path != "" && u.Path != "/" {
			return fmt.Errorf("%q is no ssh://[user@]host[:port]", word)
		}
		p.line.Host = u.Hostname()
		if u.Port() != "" {
			p.line.Without = append(p.line.Without, "port "+u.Port())
		}
		if u.User != nil {
			return p.user(u.User.Username())
		}
		return nil
	}
	host := word
	if i := strings.LastIndexByte(word, '@'); i >= 0 {
		host = word[i+1:]
		if err := p.user(word[:i]); err != nil {
			return err
		}
	}
	if host == "" || strings.ContainsAny(host, " \t\n,") {
		return fmt.Errorf("%q is no host", word)
	}
	p.line.Host = host
	return nil
}

func (p *parser) finish() (Line, error) {
	l := &p.line
	l.Command = strings.Join(p.args, " ")
	switch {
	case l.Command == "":
		var err error
		if l.Command, err = p.ofHost(p.remote, "RemoteCommand"); err != nil {
			return Line{}, err
		}
	case p.remote != "":
		return Line{}, errors.New("a command is given twice: as words and as -o RemoteCommand")
	}
	if l.Nothing && l.Command != "" {
		return Line{}, errors.New("-N runs nothing, and a command is given")
	}
	if l.Background && l.Command == "" && !l.Nothing {
		return Line{}, errors.New("-f goes to the background with a command, and none is given")
	}
	if p.realHost != "" {
		host, err := p.ofHost(p.realHost, "HostName")
		if err != nil {
			return Line{}, err
		}
		l.Host = host
	}
	if p.timeout > 0 {
		l.Timeout = time.Duration(p.timeout) * time.Second * time.Duration(max(p.attempts, 1))
	}
	l.NoStdin = l.NoStdin || l.Background
	return *l, nil
}

// ofHost is a setting's value in which tokens stand for the host.
func (p *parser) ofHost(value, setting string) (string, error) {
	text, unknown, ok := expanded(value, map[string]string{"h": p.line.Host, "n": p.line.Host, "%": "%"})
	if !ok {
		return "", fmt.Errorf("%s has %%%.1s, which stands for nothing here; %%h is the host", setting, unknown)
	}
	return text, nil
}
