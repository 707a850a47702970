package ssh

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// blanks are those of OpenSSH's misc.c; characters such as U+00A0 belong to a value.
const blanks = " \t\r\n"

// config takes the value of -o: "Name=value", "Name value", names in any case (ssh_config(5)).
func (p *parser) config(text string) error {
	text = strings.Trim(text, blanks)
	name, value := text, ""
	if i := strings.IndexAny(text, "= \t"); i >= 0 {
		name = text[:i]
		value = strings.Trim(text[i:], blanks)
		value = strings.Trim(strings.TrimPrefix(value, "="), blanks)
	}
	if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
		value = value[1 : len(value)-1]
	}
	r, ok := settings()[strings.ToLower(name)]
	switch {
	case !ok && p.ignored(name):
		p.line.Without = append(p.line.Without, strings.TrimSpace(name+" "+value))
		return nil
	case !ok:
		return fmt.Errorf("unknown setting %q", name)
	case value == "":
		return fmt.Errorf("%s has no value", name)
	}
	return p.take(name, r, value)
}

// ignored says that IgnoreUnknown has a pattern for a setting. Names are compared in small letters.
func (p *parser) ignored(name string) bool {
	return slices.ContainsFunc(p.ignore, func(pattern string) bool {
		ok, err := path.Match(strings.ToLower(pattern), strings.ToLower(name))
		return ok && err == nil
	})
}

// settings are ssh_config's, by their names in small letters.
var settings = sync.OnceValue(func() map[string]row {
	rows := map[string]row{
		"connecttimeout":          {set: (*parser).connectTimeout},
		"connectionattempts":      {set: (*parser).connectionAttempts},
		"user":                    {set: (*parser).user},
		"hostname":                {set: (*parser).hostname},
		"ignoreunknown":           {set: func(p *parser, v string) error { p.ignore = append(p.ignore, strings.Split(v, ",")...); return nil }},
		"port":                    {set: (*parser).port},
		"identityfile":            {set: (*parser).identity},
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
		"include":        {refused: noFiles}, "match": {refused: noFiles}, "host": {refused: noFiles},
	}
	for _, name := range strings.Fields(withoutEffect) {
		rows[name] = row{}
	}
	return rows
})

// withoutEffect are settings of how to get there, whom to trust and what to share.
const withoutEffect = `
	addkeystoagent addressfamily batchmode bindaddress bindinterface canonicaldomains
	canonicalizefallbacklocal canonicalizehostname canonicalizemaxdots canonicalizepermittedcnames
	casignaturealgorithms certificatefile channeltimeout checkhostip ciphers clearallforwardings
	compression controlmaster controlpath controlpersist enableescapecommandline enablesshkeysign
	escapechar exitonforwardfailure fingerprinthash forwardagent forwardx11 forwardx11timeout
	forwardx11trusted gatewayports globalknownhostsfile gssapiauthentication
	gssapidelegatecredentials gssapikeyexchange gssapitrustdns hashknownhosts
	hostbasedacceptedalgorithms hostbasedauthentication hostkeyalgorithms hostkeyalias
	identitiesonly identityagent ipqos kbdinteractiveauthentication
	kbdinteractivedevices kexalgorithms knownhostscommand localcommand logverbose macs
	nohostauthenticationforlocalhost numberofpasswordprompts obscurekeystroketiming
	passwordauthentication permitlocalcommand permitremoteopen pkcs11provider
	preferredauthentications proxycommand proxyjump proxyusefdpass pubkeyacceptedalgorithms
	pubkeyacceptedkeytypes pubkeyauthentication rekeylimit requiredrsasize revokedhostkeys
	securitykeyprovider serveralivecountmax serveraliveinterval streamlocalbindmask
	streamlocalbindunlink stricthostkeychecking syslogfacility tag tcpkeepalive tunnel tunneldevice
	updatehostkeys userknownhostsfile verifyhostkeydns visualhostkey xauthlocation
	challengeresponseauthentication rsaauthentication rhostsrsaauthentication useprivilegedport
	keepalive cipher protocol usekeychain gssapiclientidentity gssapikexalgorithms
	gssapirenewalforcesrekey gssapiserveridentity useroaming dsaauthentication fallbacktorsh usersh
	compressionlevel rhostsauthentication globalknownhostsfile2 userknownhostsfile2 skeyauthentication
	tisauthentication afstokenpassing kerberosauthentication kerberostgtpassing smartcarddevice
	hostbasedkeytypes identityfile2`

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

// connectionAttempts takes a count; the first value given stays, as in ssh_config.
func (p *parser) connectionAttempts(v string) error {
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > 1<<20 {
		return fmt.Errorf("%q is no number above 0", v)
	}
	p.attempts = cmp.Or(p.attempts, n)
	return nil
}

// connectTimeout takes a time as sshd_config(5) writes it, "90", "1m30s"; "none" and 0 are ssh's own patience.
func (p *parser) connectTimeout(v string) error {
	total, rest := 0, v
	if v == "none" {
		rest = "0"
	}
	for rest != "" {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		n, err := strconv.Atoi(rest[:digits])
		unit, known := 1, true
		if rest = rest[digits:]; rest != "" {
			unit, known = map[byte]int{'s': 1, 'm': 60, 'h': 3600, 'd': 86400, 'w': 604800}[rest[0]|0x20], true
			rest = rest[1:]
		}
		if err != nil || !known || unit == 0 || n > maxSeconds/unit || total+n*unit > maxSeconds {
			return fmt.Errorf("%q is no time", v)
		}
		total += n * unit
	}
	if v == "" {
		return fmt.Errorf("%q is no time", v)
	}
	p.timeout = cmp.Or(p.timeout, total)
	return nil
}

// maxSeconds is the longest ConnectTimeout, 12 days.
const maxSeconds = 1 << 20

// port has no effect: an agent's port is known otherwise.
func (p *parser) port(v string) error {
	if n, err := strconv.Atoi(v); v != "ssh" && (err != nil || n < 1 || n > 65535) {
		return fmt.Errorf("%q is no port", v)
	}
	p.line.Without = append(p.line.Without, "port "+v)
	return nil
}

// identity names a file that may hold the job's key.
func (p *parser) identity(v string) error {
	if v != "none" {
		p.line.Identity = append(p.line.Identity, v)
	}
	return nil
}

// user has no effect: an agent runs everything as its own user.
func (p *parser) user(v string) error {
	p.line.User = cmp.Or(p.line.User, v)
	p.line.Without = append(p.line.Without, "user "+v)
	return nil
}

// hostname is the host that is meant by the one that is named.
func (p *parser) hostname(v string) error {
	if v == "" || strings.ContainsAny(v, " \t\n,") {
		return fmt.Errorf("%q is no host", v)
	}
	p.realHost = cmp.Or(p.realHost, v)
	return nil
}

func (p *parser) command(v string) error {
	if v != "none" && p.remote == "" {
		p.remote = v
	}
	return nil
}

// tty takes RequestTTY, of which the first stays, and after -t and -T none counts.
func (p *parser) tty(v string) error {
	modes := map[string]TTY{"no": TTYNever, "yes": TTYAsked, "force": TTYForce, "auto": TTYAuto}
	m, ok := modes[strings.ToLower(v)]
	if !ok {
		return fmt.Errorf("%q is none of no, yes, force and auto", v)
	}
	if !p.ttySaid {
		p.line.TTY, p.ttySaid = m, true
	}
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

// logLevel takes LogLevel, of which the first stays.
func (p *parser) logLevel(v string) error {
	said := p.levelSaid
	p.levelSaid = true
	switch level := strings.ToUpper(v); {
	case slices.Contains([]string{"QUIET", "FATAL", "ERROR", "INFO", "VERBOSE", "DEBUG", "DEBUG1", "DEBUG2", "DEBUG3"}, level) && said:
	case level == "QUIET":
		p.line.Quiet = true
	case level == "FATAL", level == "ERROR", level == "INFO":
	case level == "VERBOSE", strings.HasPrefix(level, "DEBUG") && len(level) < 7:
		p.line.Verbose = max(p.line.Verbose, 1)
	default:
		return fmt.Errorf("%q is no level", v)
	}
	return nil
}

// setEnv takes variables, in quotes where a value has blanks. As with OpenSSH the first SetEnv stays.
func (p *parser) setEnv(v string) error {
	words, err := quotedWords(v)
	if err != nil {
		return err
	}
	for _, kv := range words {
		if name, _, ok := strings.Cut(kv, "="); !ok || name == "" {
			return fmt.Errorf("%q is no NAME=value", kv)
		}
	}
	if p.line.SetEnv == nil {
		p.line.SetEnv = words
	}
	return nil
}

// quotedWords splits a line at blanks outside quotes (argv_split of OpenSSH's misc.c, without escapes).
func quotedWords(text string) (words []string, err error) {
	var word strings.Builder
	open, begun := byte(0), false
	for _, c := range []byte(text) { // values are any bytes
		switch {
		case open != 0 && c == open:
			open = 0
		case open != 0:
			word.WriteByte(c)
		case c == '"' || c == '\'':
			open, begun = c, true
		case c == ' ' || c == '\t':
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteByte(c)
			begun = true
		}
	}
	if open != 0 {
		return nil, fmt.Errorf("%q has a quote that does not end", text)
	}
	if begun {
		words = append(words, word.String())
	}
	return words, nil
}

func (p *parser) sendEnv(v string) error {
	p.line.SendEnv = append(p.line.SendEnv, strings.Fields(v)...)
	return nil
}
