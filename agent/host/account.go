package host

import (
	"bufio"
	"cmp"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// Account is what the password file says of a user.
type Account struct {
	Name, Home, Shell string
}

const (
	maxPasswd    = 4 << 20 // bytes of /etc/passwd that are read
	defaultShell = "/bin/sh"
)

// AccountOf looks a user up in etc/passwd below root. One without an entry, as pods have with a
// uid of the cluster's choice, has the fallback shell and nothing else, as sshd would have it if it
// let such a user in (passwd(5): an empty shell is /bin/sh).
func AccountOf(root fs.FS, uid int) Account {
	a := Account{Shell: defaultShell}
	f, err := root.Open("etc/passwd")
	if err != nil {
		return a
	}
	defer f.Close()
	lines := bufio.NewScanner(io.LimitReader(f, maxPasswd))
	for lines.Scan() {
		fields := strings.Split(lines.Text(), ":")
		if len(fields) != 7 || fields[2] != strconv.Itoa(uid) {
			continue
		}
		a.Name, a.Home = fields[0], fields[5]
		if path.IsAbs(fields[6]) {
			a.Shell = fields[6]
		}
		return a
	}
	return a
}

// Argv is a shell that runs text, or a login shell for "": its argv[0] begins with a hyphen.
func (a Account) Argv(text string) []string {
	name := path.Base(a.Shell)
	if text == "" {
		return []string{"-" + name}
	}
	return []string{name, "-c", text}
}

// Variables are those that sshd sets and the container may lack; env is the container's.
func (a Account) Variables(env []string) (list []string) {
	for _, v := range []struct{ name, value string }{
		{"HOME", a.Home}, {"USER", a.Name}, {"LOGNAME", a.Name}, {"SHELL", a.Shell},
	} {
		if set, _ := Lookup(v.name, env); v.value != "" && set == "" {
			list = append(list, v.name+"="+v.value)
		}
	}
	return list
}

// HomeIn is the home directory: the container's HOME comes before the password file's.
func (a Account) HomeIn(env []string) string {
	home, _ := Lookup("HOME", env)
	return cmp.Or(home, a.Home)
}
