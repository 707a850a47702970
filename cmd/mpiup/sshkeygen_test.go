package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/need"
)

// keygen runs the applet with a text as its standard input.
func sshKeygen(t *testing.T, input string, args ...string) (out, said string, code int) {
	t.Helper()
	dir := t.TempDir()
	files := map[string]*os.File{}
	for _, name := range []string{"in", "out", "err"} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files[name] = f
	}
	if _, err := files["in"].WriteAt([]byte(input), 0); err != nil {
		t.Fatal(err)
	}
	p := &process{env: []string{"USER=me"}, host: "w0", stdin: files["in"], stdout: files["out"], stderr: files["err"]}
	code = sshKeygenApplet(p, args)
	read := func(name string) string {
		text, err := os.ReadFile(files[name].Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	return read("out"), read("err"), code
}

// OpenSSH reads the keys that are made, and finds the same public half and fingerprint.
func TestKeysAreOpenSSHs(t *testing.T) {
	need.Program(t, "ssh-keygen", "openssh-client")
	for _, tt := range []struct{ args, bits string }{
		{"-t rsa", "3072"}, {"-t rsa -b 2048", "2048"}, {"-t ecdsa", "256"}, {"-t ecdsa -b 521", "521"}, {"-t ed25519", "256"}, {"", "256"},
	} {
		file := filepath.Join(t.TempDir(), "key")
		out, said, code := sshKeygen(t, "", append(strings.Fields(tt.args), "-N", "", "-f", file)...)
		if code != 0 {
			t.Fatalf("%s: %d, %s", tt.args, code, said)
		}
		for name, mode := range map[string]os.FileMode{file: 0o600, file + ".pub": 0o644} {
			if info, err := os.Lstat(name); err != nil || info.Mode() != mode {
				t.Errorf("%s: %v, %v", name, info.Mode(), err)
			}
		}
		public, err := os.ReadFile(file + ".pub")
		if err != nil {
			t.Fatal(err)
		}
		real, err := exec.Command("ssh-keygen", "-y", "-f", file).CombinedOutput()
		if err != nil || string(real) != string(public) || !bytes.HasSuffix(public, []byte(" me@w0\n")) {
			t.Errorf("%s: ssh-keygen -y: %v, %s; the public file has %s", tt.args, err, real, public)
		}
		real, err = exec.Command("ssh-keygen", "-l", "-f", file).CombinedOutput()
		words := strings.Fields(string(real))
		if err != nil || len(words) < 3 || words[0] != tt.bits || !strings.Contains(out, words[1]+" me@w0\n") {
			t.Errorf("%s: ssh-keygen -l: %v, %s; ours said %s", tt.args, err, real, out)
		}
		ours, said, code := sshKeygen(t, "", "-y", "-f", file)
		if code != 0 || strings.TrimSpace(ours) != strings.TrimSuffix(strings.TrimSpace(string(public)), " me@w0") {
			t.Errorf("%s: ours -y: %d, %q, %s; the public file has %s", tt.args, code, ours, said, public)
		}
		for _, name := range []string{file, file + ".pub"} {
			if ours, said, code := sshKeygen(t, "", "-l", "-f", name); code != 0 || ours != string(real) {
				t.Errorf("%s: ours -l of %s: %d, %q, %s; OpenSSH's %s", tt.args, name, code, ours, said, real)
			}
		}
	}
}

func TestKeysThatCannotBeShown(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if _, said, code := sshKeygen(t, "", "-q", "-t", "ed25519", "-N", "", "-f", file); code != 0 {
		t.Fatal(said)
	}
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no key\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"-y -f " + file + ".pub": "key.pub is a public key already",
		"-l -f " + text:          "neither a private key nor a line with a public one",
		"-l -f " + file + "0":    "no such file or directory",
		"-y -f /dev/zero":        "too large",
	} {
		if out, said, code := sshKeygen(t, "", strings.Fields(args)...); code != 1 || out != "" || !strings.Contains(said, want) {
			t.Errorf("%s: %d, %q, %s", args, code, out, said)
		}
	}
	if out, said, code := sshKeygen(t, "", "-f", text, "-R", "[w0]:2222"); code != 0 || out != "" || !strings.Contains(said, "-R [w0]:2222: nothing is changed: mpiup's ssh knows hosts by the job's secret") {
		t.Errorf("-R: %d, %q, %s", code, out, said)
	}
}

// Nothing that is there goes unless standard input says so; what goes is replaced in whole.
func TestKeysAreNotOverwritten(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "key")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, answer := range []string{"", "n\n", "maybe\n"} {
		_, said, code := sshKeygen(t, answer, "-t", "ed25519", "-N", "", "-f", file)
		if text, err := os.ReadFile(file); code != 1 || err != nil || string(text) != "precious" || !strings.Contains(said, "is there and stays") {
			t.Errorf("%q: code %d, %s, %v: %s", answer, code, text, err, said)
		}
	}
	if _, said, code := sshKeygen(t, "y\n", "-q", "-t", "ed25519", "-N", "", "-f", file); code != 0 {
		t.Errorf("y: %d, %s", code, said)
	}
	if text, err := os.ReadFile(file); err != nil || !bytes.HasPrefix(text, []byte("-----BEGIN OPENSSH PRIVATE KEY-----")) {
		t.Errorf("after y: %s, %v", text, err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if _, said, code := sshKeygen(t, "y\n", "-t", "ed25519", "-N", "", "-f", link); code != 1 || !strings.Contains(said, "is no file") {
		t.Errorf("a link: %d, %s", code, said)
	}
	if _, said, code := sshKeygen(t, "", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, "none/key")); code != 1 || !strings.Contains(said, "make the directory") {
		t.Errorf("no directory: %d, %s", code, said)
	}
}

func TestHostKeys(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(root+"/etc/ssh", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(root+"/etc/ssh/ssh_host_rsa_key", []byte("there"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, said, code := sshKeygen(t, "", "-A", "-f", root)
	if code != 0 || out != "ssh-keygen: generating new host keys: ECDSA ED25519 \n" {
		t.Errorf("%d, %q, %s", code, out, said)
	}
	if text, err := os.ReadFile(root + "/etc/ssh/ssh_host_rsa_key"); err != nil || string(text) != "there" {
		t.Errorf("the key that was there: %s, %v", text, err)
	}
	if out, _, code := sshKeygen(t, "", "-A", "-f", root); code != 0 || out != "" {
		t.Errorf("again: %d, %q", code, out)
	}
}

// The words of sshd and its file lead to the private key that they authorize; those of ssh to the keys that they name.
func TestKeysThatSSHNames(t *testing.T) {
	home := t.TempDir()
	for name, text := range map[string]string{
		"sshd_config": "Port 2222\nHostKey " + home + "/host\nAuthorizedKeysFile %h/auth/list\n",
		"config":      "Host w*\nIdentityFile ~/w\nHost *\nIdentityFile ~/all\n",
	} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := &process{env: []string{"HOME=" + home}}
	l, err := parseSSHD([]string{"-D", "-f", home + "/sshd_config", "-h", "/h", "-h", `/of "b" keys`})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, k := range serverKeys(p, l) {
		if k.Authorized != home+"/auth/list" || k.Insist {
			t.Errorf("%+v", k)
		}
		got = append(got, strings.TrimPrefix(k.File, home))
	}
	if s := strings.Join(got, " "); s != `/auth/id_rsa /auth/id_ecdsa /auth/id_ed25519 /h /of "b" keys /host` {
		t.Error(s)
	}
	if l, err = parseSSHD([]string{"-D"}); err != nil || serverKeys(p, l) != nil {
		t.Errorf("without a file: %+v, %v", serverKeys(p, l), err)
	}
	got = nil
	for _, k := range launcherKeys(p, "-p 2222 -o StrictHostKeyChecking=no -i ~/mine -F "+home+"/config") {
		got = append(got, strings.TrimPrefix(k.File, home))
	}
	if s := strings.Join(got, " "); s != "/mine /all" {
		t.Error(s)
	}
}
