package secret

import (
	"strings"

	"github.com/mpiup/mpiup/internal/pattern"
)

// Words in a variable's name by which its value is taken for a secret, as GitHub's and GitLab's masking go by; ends of such names; and names
// that have one of them and hold no secret.
var (
	secretWords = []string{"SECRET", "TOKEN", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "CREDS", "PRIVATE", "APIKEY", "API_KEY",
		"ACCESS_KEY", "AUTH", "COOKIE", "_KEY", "KEY_", "JWT",
		"DSN", "CONNECTION_STRING", "_PWD", "PASSCODE", "SIGNATURE", "_PASS", "WEBHOOK", "_PAT"}
	secretEnds = []string{
		"PASS",    // SSHPASS, PGPASS
		"HEADERS", // OTEL_EXPORTER_OTLP_HEADERS, which has api-key=...
	}
	openNames = []string{"TOKENIZERS_PARALLELISM", "SSH_AUTH_SOCK", "XAUTHORITY", "MPIUP_KEY", "OLDPWD"}
	openEnds  = []string{"ASKPASS", "BYPASS", "COMPASS"} // SSH_ASKPASS is a program
)

// secretNames are the ends of names, in small letters and without what joins their words, behind which a secret follows in running text or
// on a command line: --hf-token, db.password, apiKey.
var secretNames = []string{"password", "passwd", "passphrase", "passcode", "pwd", "secret", "token", "apikey", "secretkey",
	"accesskey", "privatekey", "accountkey", "signingkey",
	"masterkey", "sharedkey", "encryptionkey", "subscriptionkey", "licensekey", "sshkey", "authkey", "credential", "credentials", "authorization", "auth",
	"cookie", "dsn",
	"connectionstring", "signature", "webhook", "sshpass", "pgpass", "creds", "jwt"}

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

// A programOption is an option of a program's own by which it is told a password, where the option's name does not say so.
type programOption struct {
	programs   []string
	subcommand string   // the option is that of this subcommand alone; "": of the program
	options    []string // the secret is the next word
	attached   []string // the secret follows in the same word
	behind     string   // it stands behind a user's name and this; "": it is the whole value
}

// programOptions are by the programs' own manual pages.
var programOptions = []programOption{
	{programs: []string{"sshpass"}, options: []string{"-p"}, attached: []string{"-p"}},
	{programs: []string{"redis-cli", "valkey-cli"}, options: []string{"-a", "--pass"}},
	{programs: []string{"mysql", "mysqldump", "mysqladmin", "mysqlimport", "mariadb", "mariadb-dump", "mariadb-admin"}, attached: []string{"-p"}},
	{programs: []string{"ldapsearch", "ldapadd", "ldapmodify", "ldapdelete", "ldapwhoami"}, options: []string{"-w"}, attached: []string{"-w"}},
	{programs: []string{"mongo", "mongosh", "mongodump", "mongorestore", "cqlsh"}, options: []string{"-p"}},
	{programs: []string{"docker", "podman", "nerdctl", "skopeo", "buildah", "oras", "helm", "crane"}, subcommand: "login", options: []string{"-p"}},
	{programs: []string{"oc", "kubectl"}, subcommand: "login", options: []string{"-p"}},
	{programs: []string{"unzip", "zip"}, options: []string{"-P"}, attached: []string{"-P"}},
	{programs: []string{"7z", "7za", "7zz"}, attached: []string{"-p"}},
	{programs: []string{"openssl"}, options: []string{"-k", "-K", "-pass", "-passin", "-passout"}},
	{programs: []string{"sqlcmd", "bcp"}, options: []string{"-P"}, attached: []string{"-P"}},
	{programs: []string{"curl"}, options: []string{"-u", "--user", "--proxy-user", "-U"}, behind: ":"},
	{programs: []string{"smbclient", "smbget", "rpcclient", "net"}, options: []string{"-U", "--user"}, behind: "%"},
	{programs: []string{"aria2c", "rclone", "lftp"}, options: []string{"--pass", "--http-passwd", "--ftp-passwd", "--ftp-pass", "--sftp-pass"}},
}

var (
	inURL      = pattern.Of(`://([^/\s:@"']*):([^\s"'<>]*)@|://[^/\s:@"']{20,}@`)
	inQuery    = pattern.Of(`([?&](?:sig|key|pass|code)=)[^&\s"'<>]+`) // Azure's shared access signatures, Google's and Azure Functions' keys
	privateKey = pattern.Of(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----[^-]*(?:-----END [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----)?`)
	ofUser     = pattern.Of(`((?:^|\s)(?:-u|--user|--proxy-user)[\s=]+["']?[^\s:"']+:)([^\s"']+)`)
)
