package cli

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/identity/keyfile"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/cli/ssh"
)

// KeygenIO is what making keys needs besides its command line.
type KeygenIO struct {
	Stdin      io.Reader
	Stdout     io.Writer
	User, Host string // of a key's comment; User may be empty
}

// MakeKey makes keys or shows one, as ssh-keygen was asked.
func MakeKey(k ssh.Keygen, p KeygenIO) error {
	switch {
	case k.All:
		return hostKeys(p, k)
	case k.Show != 0:
		return showKey(p, k)
	}
	return userKey(p, k)
}

// hostKeys makes the host keys that are missing, as -A does: agents have no use for them, and scripts look for them.
func hostKeys(p KeygenIO, k ssh.Keygen) error {
	said := false
	for _, kind := range []string{"rsa", "ecdsa", "ed25519"} {
		file := filepath.Join(k.File+"/etc/ssh", "ssh_host_"+kind+"_key")
		if _, err := os.Lstat(file); err == nil {
			continue
		}
		if !k.Quiet {
			if !said {
				fmt.Fprint(p.Stdout, "ssh-keygen: generating new host keys: ")
			}
			visible.Fprintf(p.Stdout, "%s ", strings.ToUpper(kind))
			said = true
		}
		pair, err := keyfile.Generate(kind, 0, "root@"+p.Host)
		if err == nil {
			err = saveKey(file, pair)
		}
		if err != nil {
			return err
		}
	}
	if said {
		fmt.Fprintln(p.Stdout)
	}
	return nil
}

// userKey makes one key. What is there is replaced only where standard input says y, as OpenSSH asks it.
func userKey(p KeygenIO, k ssh.Keygen) error {
	if !k.HasC {
		k.Comment = cmp.Or(p.User, fmt.Sprint("uid", os.Getuid())) + "@" + p.Host
	}
	if !k.Quiet {
		visible.Fprintf(p.Stdout, "Generating public/private %s key pair.\n", k.Kind)
	}
	pair, err := keyfile.Generate(k.Kind, k.Bits, k.Comment)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(k.File); err == nil {
		if err := mayReplace(p, k.File); err != nil {
			return err
		}
	}
	if err := saveKey(k.File, pair); err != nil {
		return err
	}
	if !k.Quiet {
		visible.Fprintf(p.Stdout, "Your identification has been saved in %[1]s\nYour public key has been saved in %[1]s.pub\nThe key fingerprint is:\n%s %s\n",
			k.File, pair.Fingerprint, k.Comment)
	}
	return nil
}

// showKey prints a key's public half, or its fingerprint. The file's mode is not judged: a Secret's is not the user's choice.
func showKey(p KeygenIO, k ssh.Keygen) error {
	text, err := bounded.File(k.File, keyfile.MaxSize)
	if err != nil {
		return err
	}
	public, err := keyfile.PublicOf(text)
	if err != nil {
		return fmt.Errorf("%s: %w", k.File, err)
	}
	if k.Show == 'y' {
		if !public.Private {
			return fmt.Errorf("%s is a public key already: -y prints that of a private one", k.File)
		}
		visible.Fprintln(p.Stdout, public.Line)
		return nil
	}
	comment := public.Comment
	if beside, err := bounded.Regular(k.File+".pub", keyfile.MaxSize); err == nil && public.Private {
		if b, err := keyfile.PublicOf(beside); err == nil && b.Line == public.Line {
			comment = b.Comment // which x/crypto/ssh does not tell of a private key
		}
	}
	visible.Fprintf(p.Stdout, "%d %s %s (%s)\n", public.Bits, public.Fingerprint, cmp.Or(visible.Line(comment), "no comment"), public.Kind)
	return nil
}

// mayReplace asks whether a file may go, and takes it away.
func mayReplace(p KeygenIO, file string) error {
	if info, err := os.Lstat(file); err != nil || !info.Mode().IsRegular() {
		return fmt.Errorf("%s is there and is no file: choose another name with -f", file)
	}
	visible.Fprintf(p.Stdout, "%s already exists.\nOverwrite (y/n)? ", file)
	answer, err := bufio.NewReader(io.LimitReader(p.Stdin, 64)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("whether to overwrite %s: %w", file, err)
	}
	if answer = strings.TrimSpace(answer); !strings.EqualFold(answer, "y") && !strings.EqualFold(answer, "yes") {
		return fmt.Errorf("%s is there and stays: remove it first, or answer y", file)
	}
	return os.Remove(file)
}

// saveKey writes both files. The private one is new and its owner's alone; the public one may replace another.
func saveKey(file string, pair keyfile.Pair) error {
	if err := writeNew(file, pair.Private, 0o600); err != nil {
		return err
	}
	if err := os.Remove(file + ".pub"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return writeNew(file+".pub", pair.Public, 0o644)
}

// writeNew writes a file that was not there, through no link, or leaves none.
func writeNew(file string, text []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s cannot be made: make the directory %s first", file, filepath.Dir(file))
	}
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(file))
	}
	return nil
}
