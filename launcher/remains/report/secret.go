package report

import (
	"regexp"
	"slices"
	"strings"
)

// mask stands for what is not told.
const mask = "***"

// Words in a variable's name by which its value is taken for a secret, as GitHub's and GitLab's masking go by, and
// names that hold one of them and no secret.
var (
	secretWords = []string{"SECRET", "TOKEN", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "PRIVATE", "APIKEY", "API_KEY", "ACCESS_KEY", "AUTH", "COOKIE", "_KEY", "KEY_", "DSN", "CONNECTION_STRING"}
	openNames   = []string{"TOKENIZERS_PARALLELISM", "SSH_AUTH_SOCK", "XAUTHORITY", "MPIUP_KEY"}
)

// masker takes secrets out of text.
type masker struct{ secret *regexp.Regexp }

// newMasker knows what is a secret wherever it stands: a user and password in a URL, and keys by their makers' prefixes
// (AWS, GitHub, GitLab, Hugging Face, Slack, OpenAI, JSON Web Tokens, PEM), and what follows "password" and its kin.
func newMasker() masker {
	return masker{regexp.MustCompile(`://[^/\s:@]+:[^/\s@]+@` +
		`|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b` +
		`|\b(?:ghp|gho|ghu|ghs|ghr|github_pat|glpat|hf|xox[abprs]|sk|dckr_pat|npm|pypi)[-_][A-Za-z0-9_-]{16,}` +
		`|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*` +
		`|-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(?:-----END [A-Z ]*PRIVATE KEY-----)?` +
		`|(?i:\b(?:password|passwd|secret|token|api[-_]?key|authorization)["']?\s*[:=]\s*["']?)(?:(?i:bearer|basic)\s+)?[^\s"',;]{4,}`)}
}

// variable is NAME=value, without the value where the name or the value is a secret's, and with at most 4 KiB of it.
func (m masker) variable(kv string) string {
	name, value, ok := strings.Cut(kv, "=")
	if !ok {
		return cut(m.text(kv), maxVariable)
	}
	if secretName(name) && value != "" {
		return name + "=" + mask
	}
	return name + "=" + cut(m.text(value), maxVariable)
}

func secretName(name string) bool {
	name = strings.ToUpper(name)
	return slices.ContainsFunc(secretWords, func(word string) bool { return strings.Contains(name, word) }) && !slices.Contains(openNames, name)
}

// Secret says that NAME=value may be a secret.
func Secret(kv string) bool {
	name, value, _ := strings.Cut(kv, "=")
	return secretName(name) || newMasker().secret.MatchString(value)
}

// words are the words of a command line, in which NAME=value is a variable.
func (m masker) words(list []string) []string {
	out := make([]string, len(list))
	for i, w := range list {
		if out[i] = m.text(w); nameValue(w) {
			out[i] = m.variable(w)
		}
	}
	return out
}

func nameValue(w string) bool {
	name, _, ok := strings.Cut(w, "=")
	return ok && name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}

// text is text without the secrets that show themselves in it.
func (m masker) text(text string) string {
	return m.secret.ReplaceAllStringFunc(text, func(found string) string {
		if strings.HasPrefix(found, "://") {
			return "://" + mask + "@"
		}
		if i := strings.IndexAny(found, ":="); i >= 0 && !strings.HasPrefix(found, "-----") {
			return found[:i+1] + mask
		}
		return mask
	})
}
