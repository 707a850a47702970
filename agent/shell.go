package agent

import (
	"bufio"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// account is what the password file says of a user.
type account struct {
	name, home, shell string
}

const (
	maxPasswd    = 4 << 20 // bytes of /etc/passwd that are read
	defaultShell = "/bin/sh"
)

// accountOf looks a user up in etc/passwd below root. One without an entry, as pods have with a
// uid of the cluster's choice, has the fallback shell and nothing else, as sshd would have it if it
// let such a user in (passwd(5): an empty shell is /bin/sh).
func accountOf(root fs.FS, uid int) account {
	a := account{shell: defaultShell}
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
		a.name, a.home = fields[0], fields[5]
		if path.IsAbs(fields[6]) {
			a.shell = fields[6]
		}
		return a
	}
	return a
}

// argv is a shell that runs text, or a login shell for "": its argv[0] begins with a hyphen.
func (a account) argv(text string) []string {
	name := path.Base(a.shell)
	if text == "" {
		return []string{"-" + name}
	}
	return []string{name, "-c", text}
}

// variables are those that sshd sets and the container may lack; env is the container's.
func (a account) variables(env []string) (list []string) {
	for _, v := range []struct{ name, value string }{
		{"HOME", a.home}, {"USER", a.name}, {"LOGNAME", a.name}, {"SHELL", a.shell},
	} {
		if v.value != "" && valueOf(env, v.name) == "" {
			list = append(list, v.name+"="+v.value)
		}
	}
	return list
}

// homeIn is the home directory: the container's HOME comes before the password file's.
func (a account) homeIn(env []string) string {
	if home := valueOf(env, "HOME"); home != "" {
		return home
	}
	return a.home
}

func valueOf(env []string, name string) string {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}
