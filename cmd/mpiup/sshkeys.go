package main

import (
	"path/filepath"
	"strings"

	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/launcher/cli/ssh"
)

// maxSSHConfig is far beyond any configuration of ssh or sshd, in bytes.
const maxSSHConfig = 1 << 20

// readSSHConfig is the text of a configuration; "" where it cannot be read.
func readSSHConfig(file string) string {
	text, err := bounded.Regular(file, maxSSHConfig)
	if err != nil {
		return ""
	}
	return string(text)
}

// clientKeys are the keys that a command line of ssh names, then those of the configuration that it would read: scripts
// that set up ssh for MPI name the job's key there.
func clientKeys(p *process, l ssh.Line) (keys []identity.NamedKey) {
	home, here := p.getenv("HOME"), dirOrRoot()
	for _, file := range l.Identity {
		if file, ok := ssh.Path(file, home, p.getenv("USER"), here); ok {
			keys = append(keys, identity.NamedKey{File: file, From: "ssh's -i or IdentityFile", Insist: true})
		}
	}
	config := l.Config
	if config == "" && filepath.IsAbs(home) {
		config = home + "/.ssh/config"
	}
	if config == "" || config == "none" {
		return keys
	}
	for _, file := range ssh.IdentityFiles(readSSHConfig(config), l.Host) {
		if file, ok := ssh.Path(file, home, p.getenv("USER"), here); ok {
			keys = append(keys, identity.NamedKey{File: file, From: "IdentityFile in " + config})
		}
	}
	return keys
}

// launcherKeys are the keys that a launcher's words for ssh name. What ssh itself would refuse names none: no ssh is run.
func launcherKeys(p *process, words string) []identity.NamedKey {
	l, err := ssh.Parse(append(strings.Fields(words), "--", "*"))
	if err != nil {
		l = ssh.Line{}
	}
	l.Host = ""
	return clientKeys(p, l)
}

// serverKeys are the private keys that sshd's settings lead to. sshd lets in whoever has the private half of a key in its list. So a
// private key counts that lies beside that list, or is a host key, and whose public half stands in the list.
func serverKeys(p *process, l sshdLine) (keys []identity.NamedKey) {
	s := l.server
	if l.config != "" {
		s.Read(readSSHConfig(l.config))
	}
	home := p.getenv("HOME")
	for _, name := range s.AuthorizedKeys {
		list, ok := ssh.Path(name, home, p.getenv("USER"), home)
		if !ok {
			continue
		}
		files := []string{"id_rsa", "id_ecdsa", "id_ed25519"}
		for i := range files {
			files[i] = filepath.Join(filepath.Dir(list), files[i])
		}
		for _, name := range s.HostKeys {
			if file, ok := ssh.Path(name, home, "", dirOrRoot()); ok {
				files = append(files, file)
			}
		}
		for _, file := range files {
			keys = append(keys, identity.NamedKey{File: file, From: "AuthorizedKeysFile " + list, Authorized: list})
		}
	}
	return keys
}
