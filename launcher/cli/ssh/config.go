package ssh

import (
	"fmt"
	"strconv"
	"strings"
)

// config takes the value of -o: "Name=value", "Name value", names in any case (ssh_config(5)).
func (p *parser) config(text string) error {
	text = strings.TrimSpace(text)
	name, value := text, ""
	if i := strings.IndexAny(text, "= \t"); i >= 0 {
		name = text[:i]
		value = strings.TrimSpace(text[i:])
		value = strings.TrimSpace(strings.TrimPrefix(value, "="))
	}
	if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
		value = value[1 : len(value)-1]
	}
	r, ok := settings[strings.ToLower(name)]
	if !ok {
		return fmt.Errorf("unknown setting %q", name)
	}
	if value == "" {
		return fmt.Errorf("%s has no value", name)
	}
	return p.take(name, r, value)
}

// settings are ssh_config's, by their names in small letters.
var settings = withoutEffectAnd(map[string]row{
	"connecttimeout":          {set: number(func(p *parser) *int { return &p.timeout })},
	"connectionattempts":      {set: number(func(p *parser) *int { return &p.attempts })},
	"user":                    {set: func(p *parser, v string) error { p.line.User = v; return nil }},
	"port":                    {set: (*parser).port},
	"remotecommand":           {set: (*parser).command},
	"requesttty":              {set: (*parser).tty},
	"stdinnull":               {set: yes(func(l *Line, on bool) { l.NoStdin = on })},
	"forkafterauthentication": {set: yes(func(l *Line, on bool) { l.Background = on })},
	"sessiontype":             {set: (*parser).session},
	"loglevel":                {set: (*parser).logLevel},
	"setenv":                  {set: (*parser).setEnv},
	"sendenv":                 {set: (*parser).sendEnv},

	"localforward":   {refused: noForward},
	"remoteforward":  {refused: noForward},
	"dynamicforward": {refused: noForward},
})

func withoutEffectAnd(rows map[string]row) map[string]row {
	for _, name := range strings.Fields(withoutEffect) {
		rows[name] = row{}
	}
	return rows
}

// withoutEffect are settings of how to get there, whom to trust and what to share.
const withoutEffect = `
	addkeystoagent addressfamily batchmode bindaddress bindinterface canonicaldomains
	canonicalizefallbacklocal canonicalizehostname canonicalizemaxdots canonicalizepermittedcnames
	casignaturealgorithms certificatefile channeltimeout checkhostip ciphers clearallforwardings
	compression controlmaster controlpath controlpersist enableescapecommandline enablesshkeysign
	escapechar exitonforwardfailure fingerprinthash forwardagent forwardx11 forwardx11timeout
	forwardx11trusted gatewayports globalknownhostsfile gssapiauthentication
	gssapidelegatecredentials gssapikeyexchange gssapitrustdns hashknownhosts
	hostbasedacceptedalgorithms hostbasedauthentication hostkeyalgorithms hostkeyalias hostname
	identitiesonly identityagent identityfile ignoreunknown ipqos kbdinteractiveauthentication
	kbdinteractivedevices kexalgorithms knownhostscommand localcommand logverbose macs
	nohostauthenticationforlocalhost numberofpasswordprompts obscurekeystroketiming
	passwordauthentication permitlocalcommand permitremoteopen pkcs11provider
	preferredauthentications proxycommand proxyjump proxyusefdpass pubkeyacceptedalgorithms
	pubkeyacceptedkeytypes pubkeyauthentication rekeylimit requiredrsasize revokedhostkeys
	securitykeyprovider serveralivecountmax serveraliveinterval streamlocalbindmask
	streamlocalbindunlink stricthostkeychecking syslogfacility tag tcpkeepalive tunnel tunneldevice
	updatehostkeys userknownhostsfile verifyhostkeydns visualhostkey xauthlocation
	challengeresponseauthentication rsaauthentication rhostsrsaauthentication useprivilegedport
	keepalive cipher protocol usekeychain`

func yes(set func(*Line, bool)) func(*parser, string) error {
	return func(p *parser, v string) error {
		switch strings.ToLower(v) {
		case "yes", "true":
			set(&p.line, true)
		case "no", "false":
			set(&p.line, false)
		default:
			return fmt.Errorf("%q is neither yes nor no", v)
		}
		return nil
	}
}

// number takes a count; the first value given stays, as in ssh_config.
func number(of func(*parser) *int) func(*parser, string) error {
	return func(p *parser, v string) error {
		if v == "none" {
			return nil
		}
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > 1<<20 {
			return fmt.Errorf("%q is no number above 0", v)
		}
		if to := of(p); *to == 0 {
			*to = n
		}
		return nil
	}
}

// port has no effect: an agent's port is known otherwise.
func (p *parser) port(v string) error {
	if n, err := strconv.Atoi(v); err != nil || n < 1 || n > 65535 {
		return fmt.Errorf("%q is no port", v)
	}
	p.line.Without = append(p.line.Without, "port "+v)
	return nil
}

func (p *parser) command(v string) error {
	if v != "none" && p.remote == "" {
		p.remote = v
	}
	return nil
}

func (p *parser) tty(v string) error {
	modes := map[string]TTY{"no": TTYNever, "yes": TTYAsked, "force": TTYForce, "auto": TTYAuto}
	m, ok := modes[strings.ToLower(v)]
	if !ok {
		return fmt.Errorf("%q is none of no, yes, force and auto", v)
	}
	p.line.TTY = m
	return nil
}

func (p *parser) session(v string) error {
	switch strings.ToLower(v) {
	case "none":
		p.line.Nothing = true
	case "default":
	default:
		return fmt.Errorf("%q: agents have commands and shells only", v)
	}
	return nil
}

func (p *parser) logLevel(v string) error {
	switch level := strings.ToUpper(v); level {
	case "QUIET", "FATAL", "ERROR":
		p.line.Quiet = level == "QUIET"
	case "INFO":
	case "VERBOSE", "DEBUG", "DEBUG1", "DEBUG2", "DEBUG3":
		p.line.Verbose = max(p.line.Verbose, 1)
	default:
		return fmt.Errorf("%q is no level", v)
	}
	return nil
}

func (p *parser) setEnv(v string) error {
	for _, kv := range strings.Fields(v) {
		if name, _, ok := strings.Cut(kv, "="); !ok || name == "" {
			return fmt.Errorf("%q is no NAME=value", kv)
		}
		p.line.SetEnv = append(p.line.SetEnv, kv)
	}
	return nil
}

func (p *parser) sendEnv(v string) error {
	p.line.SendEnv = append(p.line.SendEnv, strings.Fields(v)...)
	return nil
}
