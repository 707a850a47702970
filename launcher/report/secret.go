package report

import (
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/pattern"
)

// mask stands for what is not told.
const mask = "***"

// Words in a variable's name by which its value is taken for a secret, as GitHub's and GitLab's masking go by, and
// names that hold one of them and no secret.
var (
	secretWords = []string{"SECRET", "TOKEN", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "PRIVATE", "APIKEY", "API_KEY",
		"ACCESS_KEY", "AUTH", "COOKIE", "_KEY", "KEY_",
		"DSN", "CONNECTION_STRING", "_PWD", "PASSCODE", "SIGNATURE", "_PASS", "WEBHOOK", "_PAT"}
	openNames = []string{"TOKENIZERS_PARALLELISM", "SSH_AUTH_SOCK", "XAUTHORITY", "MPIUP_KEY", "OLDPWD"}
)

// secretNames are the ends of names, in small letters and without what joins their words, behind which a secret follows in running text or
// on a command line: --hf-token, db.password, apiKey.
var secretNames = []string{"password", "passwd", "passphrase", "passcode", "pwd", "secret", "token", "apikey", "secretkey",
	"accesskey", "privatekey", "accountkey", "signingkey",
	"masterkey", "sharedkey", "encryptionkey", "subscriptionkey", "licensekey", "sshkey", "authkey", "credential", "credentials", "authorization", "auth",
	"cookie", "dsn",
	"connectionstring", "signature", "webhook"}

// schemes stand before the secret of an Authorization.
var schemes = []string{"bearer ", "basic ", "token ", "digest ", "negotiate ", "apikey ", "bot "}

// beginnings are those of keys by their makers, which scanners of public repositories look for as well: what follows is random. Each is given with
// what it consists of.
var beginnings = pattern.Of(`(?:^|[^A-Za-z0-9_])(?:` + strings.Join([]string{
	`(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA|AROA|AIDA)[A-Z0-9]{16}\b`, // AWS
	`LTAI[A-Za-z0-9]{12,}`,                                     // Alibaba
	`AIza[\w-]{30,}`, `ya29\.[\w.-]{20,}`, `GOCSPX-[\w-]{20,}`, // Google
	`(?:ghp|gho|ghu|ghs|ghr|github_pat)_\w{16,}`,                                                   // GitHub
	`(?:glpat|gldt|glrt|glcbt|glptt|glft|glimt|glagent|gloas|glsoat|glffct|GR1348941)-?[\w-]{16,}`, // GitLab
	`hf_[A-Za-z0-9]{16,}`, `api_org_[A-Za-z0-9]{16,}`, // Hugging Face
	`(?:xox[a-z]|xapp)-[\w-]{10,}`, `hooks\.slack\.com/(?:services|workflows|triggers)/[\w/+-]{16,}`, // Slack
	`sk-(?:ant-|proj-|svcacct-|admin-|or-)?[\w-]{16,}`, `(?:gsk|xai|nvapi|pplx|r8|fw|csk|co|wandb_v1)[-_][\w-]{20,}`, // models
	`[sr]k_(?:live|test|prod)_[A-Za-z0-9]{10,}`, `whsec_[A-Za-z0-9+/]{16,}`, // Stripe
	`SG\.[\w-]{16,}\.[\w-]{16,}`, `SK[0-9a-f]{32}\b`, `key-[0-9a-f]{32}\b`, // SendGrid, Twilio, Mailgun
	`npm_[A-Za-z0-9]{16,}`, `pypi-[\w-]{16,}`, `rubygems_[0-9a-f]{16,}`, `cio[A-Za-z0-9]{32}\b`, // registries
	`dckr_(?:pat|oat)_[\w-]{16,}`, `(?:AKCp|cmVmd)[A-Za-z0-9]{40,}`, // Docker, Artifactory
	`(?:hvs|hvb|hvr|b|s)\.[A-Za-z0-9_-]{24,}`, `[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{20,}`, `pul-[0-9a-f]{40}`, // Vault, Terraform, Pulumi
	`do[por]_v1_[0-9a-f]{16,}`, `shp(?:at|ca|pa|ss)_[0-9a-fA-F]{16,}`, `dapi[0-9a-f]{16,}`, `dt0c01\.[\w.]{24,}`, // clouds
	`(?:glc|glsa)_[\w+/=-]{20,}`, `NRAK-[A-Z0-9]{16,}`, `lin_api_\w{16,}`, `sntr(?:ys|yu)_[\w+/=-]{20,}`, // monitoring
	`PMAK-[\w-]{16,}`, `ATATT3[\w=-]{16,}`, `ATBB\w{16,}`, `sbp_[0-9a-f]{16,}`, `tfp_\w{16,}`, `p8e-[a-z0-9]{32}`, `eyJrIjoi[\w=-]{20,}`,
	`AGE-SECRET-KEY-1[A-Z0-9]{16,}`, `A3-[A-Z0-9]{6}-[A-Z0-9-]{20,}`, `ops_eyJ[\w+/=-]{20,}`, `tskey-[\w-]{16,}`, `EZ[AT]K[A-Za-z0-9]{40,}`,
	`[\w~.]{3}\dQ~[\w~.-]{20,}`,                  // Azure AD
	`eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?`,       // JSON Web Tokens
	`\d{8,10}:AA[\w-]{30,}`,                      // Telegram
	`[MNO][A-Za-z\d]{23,}\.[\w-]{6}\.[\w-]{27,}`, // Discord
}, "|") + `)`)

var (
	inURL      = pattern.Of(`://([^/\s:@"']*):([^\s"'<>]*)@|://[^/\s:@"']{20,}@`)
	privateKey = pattern.Of(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----[^-]*(?:-----END [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----)?`)
	ofUser     = pattern.Of(`((?:^|\s)(?:-u|--user|--proxy-user)[\s=]+["']?[^\s:"']+:)([^\s"']+)`)
)

// variable is NAME=value, without the value where the name or the value is a secret's, and with at most 4 KiB of it.
func variable(kv string) string {
	name, value, ok := strings.Cut(kv, "=")
	if !ok {
		return cut(plain(kv), maxVariable)
	}
	if secretName(name) && value != "" {
		return name + "=" + mask
	}
	return name + "=" + cut(plain(value), maxVariable)
}

// secretName says that a variable's value is a secret, by its name.
func secretName(name string) bool {
	name = strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
	return slices.ContainsFunc(secretWords, func(word string) bool { return strings.Contains(name, word) }) && !slices.Contains(openNames, name)
}

// Secret says that NAME=value may be a secret.
func Secret(kv string) bool {
	name, value, _ := strings.Cut(kv, "=")
	return secretName(name) || plain(value) != value
}

// words are the words of a command line, in which NAME=value is a variable and --password is followed by one.
func words(list []string) []string {
	out := make([]string, len(list))
	for i, w := range list {
		switch {
		case i > 0 && follows(list[i-1], w):
			out[i] = mask
		case nameValue(w):
			out[i] = variable(w)
		default:
			out[i] = plain(w)
		}
	}
	return out
}

// follows says that the word behind an option is a secret.
func follows(option, w string) bool {
	return strings.HasPrefix(option, "-") && tells(option) && w != "" && !isOption(w) && !open(option, w)
}

// isOption says that a word is an option, and not the value of the one before it.
func isOption(w string) bool {
	return strings.HasPrefix(w, "--") || len(w) == 2 && w[0] == '-'
}

func nameValue(w string) bool {
	name, _, ok := strings.Cut(w, "=")
	return ok && name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}

// open says that a value tells nothing: it says that there is none, where it comes from, or is a count of tokens.
func open(name, value string) bool {
	value = strings.Trim(value, `"'\)]}.`)
	switch strings.ToLower(value) {
	case "", "none", "null", "nil", "true", "false", "undefined", mask:
		return true
	}
	number := strings.Trim(value, "0123456789.,%") == ""
	return strings.HasPrefix(value, "$") || number && len(value) < 9 && strings.Contains(strings.ToLower(name), "token")
}

// plain is text without the secrets that show themselves in it: what a URL has for a user's password, keys by their makers' beginnings, private
// keys, and what follows a name that says so.
func plain(text string) string {
	if strings.Contains(text, "-----BEGIN") {
		text = privateKey().ReplaceAllLiteralString(text, mask)
	}
	if strings.Contains(text, "://") {
		text = replace(inURL(), text, func(g []string) string {
			if port, _, _ := strings.Cut(g[2], "/"); g[2] != "" && strings.Trim(port, "0123456789") == "" && port != g[2] {
				return g[0] // host:port/path@version
			}
			return "://" + mask + "@"
		})
	}
	text = named(keys(text))
	if strings.Contains(text, "-u") || strings.Contains(text, "-user") {
		text = ofUser().ReplaceAllString(text, "${1}"+mask)
	}
	return text
}

// shortest is how long a key is, its beginning with it.
const shortest = 19

// keys takes keys out by their beginnings. They are looked for in long words only.
func keys(text string) string {
	part := func(c byte) bool {
		return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("_-.+/=~:", c) >= 0
	}
	var b strings.Builder
	done := 0
	for i := 0; i < len(text); i++ {
		from := i
		for i < len(text) && part(text[i]) {
			i++
		}
		if i-from < shortest {
			continue
		}
		b.WriteString(text[done:from])
		b.WriteString(replace(beginnings(), text[from:i], func(g []string) string {
			if c := g[0][0]; !inWord(c) { // what stands before it
				return g[0][:1] + mask
			}
			return mask
		}))
		done = i
	}
	if done == 0 {
		return text
	}
	return b.String() + text[done:]
}

func inWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}

func inName(c byte) bool { return inWord(c) || c == '-' || c == '.' }

// tells says that a secret follows a name.
func tells(name string) bool {
	const most = 64 // bytes of it that count
	var b strings.Builder
	for _, c := range []byte(name[max(0, len(name)-most):]) {
		if c != '-' && c != '_' && c != '.' {
			b.WriteByte(c)
		}
	}
	is := strings.ToLower(b.String())
	return is != "pwd" && is != "oldpwd" && slices.ContainsFunc(secretNames, func(end string) bool { return strings.HasSuffix(is, end) })
}

// named takes out what follows a name and ':' or '=', or an option's.
func named(text string) string {
	var b strings.Builder
	done := 0
	for i := 0; i < len(text); i++ {
		if !inName(text[i]) {
			continue
		}
		from := i
		for i < len(text) && inName(text[i]) {
			i++
		}
		name := text[from:i]
		if !tells(name) {
			continue
		}
		at := value(text, i, name[0] == '-')
		if at < 0 {
			continue
		}
		for _, s := range schemes {
			if len(text)-at > len(s) && strings.EqualFold(text[at:at+len(s)], s) {
				at += len(s)
				break
			}
		}
		end := valueEnd(text, at)
		if is := text[at:end]; is == "" || open(name, is) || name[0] == '-' && isOption(is) {
			i = max(i, at) - 1
			continue
		}
		b.WriteString(text[done:at])
		b.WriteString(quoted(text[at:end]))
		done, i = end, end-1
	}
	if done == 0 {
		return text
	}
	return b.String() + text[done:]
}

// value is where the value of a name begins that ends at i, or -1: behind quotes and brackets that close, and ':', '=', ':=' or '=>', or a space
// behind an option.
func value(text string, i int, option bool) int {
	skip := func(of string) (n int) {
		for i < len(text) && strings.IndexByte(of, text[i]) >= 0 {
			i++
			n++
		}
		return n
	}
	skip("\\\"']")
	spaces := skip(" \t")
	joins := 0
	for joins < 2 && i < len(text) && strings.IndexByte(":=>", text[i]) >= 0 {
		i++
		joins++
	}
	if joins == 0 && option { // --token x; ['--token', 'x']
		spaces += skip(", \t")
		joins = spaces
	}
	if joins == 0 {
		return -1
	}
	skip(" \t")
	skip("\\")
	return i
}

// valueEnd is where a value ends that begins at i.
func valueEnd(text string, i int) int {
	if i < len(text) && (text[i] == '"' || text[i] == '\'') {
		quote := text[i]
		for i++; i < len(text); i++ {
			switch text[i] {
			case '\\':
				if i+1 < len(text) && text[i+1] == quote { // of a text in a text: it ends here, too
					return i + 2
				}
			case quote:
				return i + 1
			}
		}
		return i
	}
	for i < len(text) && strings.IndexByte(" \t\n\r\"',;&", text[i]) < 0 {
		i++
	}
	return i
}

// quoted is the mask in the quotes of what it stands for.
func quoted(value string) string {
	q := value[:1]
	switch {
	case q != `"` && q != `'`:
		return mask
	case strings.HasSuffix(value, `\`+q):
		return q + mask + `\` + q
	}
	return q + mask + q
}

// replace is text with each match replaced, which do is given with its groups.
func replace(re *regexp.Regexp, text string, do func(groups []string) string) string {
	found := re.FindAllStringSubmatchIndex(text, -1)
	if found == nil {
		return text
	}
	var b strings.Builder
	done := 0
	for _, at := range found {
		groups := make([]string, len(at)/2)
		for i := range groups {
			if at[2*i] >= 0 {
				groups[i] = text[at[2*i]:at[2*i+1]]
			}
		}
		b.WriteString(text[done:at[0]])
		b.WriteString(do(groups))
		done = at[1]
	}
	b.WriteString(text[done:])
	return b.String()
}

// maxKeyLines is how many lines a private key has at most: what begins like one and does not end hides no more.
const maxKeyLines = 200

// Masker masks a process's lines as they come. The zero value is ready.
type Masker struct{ key int }

// Line is the next line without its secrets.
func (m *Masker) Line(l string) string {
	private := strings.Contains(l, "PRIVATE KEY")
	switch {
	case private && strings.Contains(l, "-----BEGIN ") && !strings.Contains(l, "-----END "):
		m.key = maxKeyLines
	case m.key > 0:
		if m.key--; private && strings.Contains(l, "-----END ") {
			m.key = 0
		}
		return mask
	}
	return plain(l)
}

// Masked are lines in a row of a rank without the secrets that a report would mask in them.
func Masked(list []string) []string {
	if list == nil {
		return nil
	}
	out := make([]string, len(list))
	var m Masker
	for i, l := range list {
		inside, ends := m.key > 0, strings.Contains(l, "PRIVATE KEY") && strings.Contains(l, "-----END ")
		out[i] = m.Line(l)
		if ends && !inside && !strings.Contains(l, "-----BEGIN ") { // it began before the first line
			for j := range i + 1 {
				out[j] = mask
			}
		}
	}
	return out
}

// masked is a copy of v, in which each text is without secrets.
func masked[T any](v *T) *T {
	if v == nil {
		return nil
	}
	out := *v
	maskEach(reflect.ValueOf(&out).Elem())
	return &out
}

func maskEach(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(plain(v.String()))
	case reflect.Pointer:
		if !v.IsNil() {
			is := reflect.New(v.Type().Elem())
			is.Elem().Set(v.Elem())
			maskEach(is.Elem())
			v.Set(is)
		}
	case reflect.Slice:
		if lines, ok := v.Interface().([]string); ok {
			v.Set(reflect.ValueOf(Masked(lines)))
		} else if v.Len() > 0 && v.Type().Elem().Kind() != reflect.Uint8 {
			list := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
			reflect.Copy(list, v)
			for i := range list.Len() {
				maskEach(list.Index(i))
			}
			v.Set(list)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				maskEach(v.Field(i))
			}
		}
	}
}
