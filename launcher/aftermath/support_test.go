package aftermath

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mpiup/mpiup/internal/job"
)

// bundle is what a program that stands for mpiup leaves in one, by the ends of names.
type bundle struct {
	desk *Desk
	s    Support
	said bytes.Buffer
}

func newBundle(t *testing.T, program string) *bundle {
	t.Helper()
	dir := t.TempDir()
	b := &bundle{s: Support{Program: filepath.Join(dir, "mpiup"), Version: "v1", Namespace: "team", Pod: "pi-launcher-0",
		Env: []string{"PATH=/usr/bin:/bin", "HOME=" + dir}, To: filepath.Join(dir, "bundle.tar.gz")}}
	b.desk = &Desk{Stdout: &b.said, Stderr: io.Discard, Typed: true, Kept: filepath.Join(dir, "none")}
	b.s.Run = func(ctx context.Context, argv, env []string, most int) (text []byte, more bool, last string, end job.Exit, err error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Env = env
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			return nil, false, "", end, err
		}
		text, err = io.ReadAll(io.LimitReader(out, int64(most)))
		rest, _ := io.Copy(io.Discard, out) // its end
		_ = cmd.Wait()                      // its code tells
		return text, rest > 0, "", job.Exit{Code: max(cmd.ProcessState.ExitCode(), 0)}, err
	}
	if err := os.WriteFile(b.s.Program, []byte("#!/bin/sh\n"+program), 0o700); err != nil {
		t.Fatal(err)
	}
	return b
}

// files are what a bundle has, by name.
func (b *bundle) files(t *testing.T) map[string]string {
	t.Helper()
	f, err := os.Open(b.s.To)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		_, below, _ := strings.Cut(h.Name, "/")
		if h.Mode != 0o600 || !strings.HasPrefix(h.Name, "must-gather.local.") {
			t.Errorf("%s has mode %o", h.Name, h.Mode)
		}
		files[below] = string(text)
	}
}

// The layout is that of oc adm must-gather, a command that fails is noted, and what is inside is said before the file is there.
func TestSupport(t *testing.T) {
	b := newBundle(t, `echo "$@"; [ $1 != doctor ] || exit 3`)
	b.s.Hosts, b.s.Job = []string{"--host=w0"}, "/tmp/a log"
	if err := b.desk.Support(t.Context(), b.s); err != nil {
		t.Fatal(err)
	}
	got := b.files(t)
	const pod = "mpiup/namespaces/team/pods/pi-launcher-0/mpiup/"
	settings, stamp := got[pod+"settings.txt"], got["timestamp"]
	if !strings.Contains(settings, "PATH=/usr/bin:/bin\n") || !strings.Contains(settings, "no value is told: HOME\n") {
		t.Errorf("settings %q", settings)
	}
	if begun, _, _ := strings.Cut(stamp, "\n"); !strings.HasPrefix(begun, "20") || strings.Count(stamp, "\n") != 2 {
		t.Errorf("timestamp %q", stamp)
	}
	delete(got, pod+"settings.txt")
	delete(got, "timestamp")
	want := map[string]string{"mpiup/version": "mpiup\nv1\n", pod + "version.txt": "version\n", pod + "doctor.txt": "doctor -v --host=w0\n",
		pod + "peers.txt": "peers -v --host=w0\n", pod + "ps.txt": "ps --host=w0\n", pod + "verdict.txt": "why /tmp/a log\n",
		pod + "report.txt": "report /tmp/a log\n", pod + "report.json": "report --json /tmp/a log\n"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for name := range want {
		if strings.HasPrefix(name, pod) && !strings.Contains(b.said.String(), name) {
			t.Errorf("%s was not listed in\n%s", name, b.said.String())
		}
	}
	if !strings.Contains(b.said.String(), "exit code 3") || !strings.HasSuffix(b.said.String(), "before you hand it on\n") {
		t.Errorf("said\n%s", b.said.String())
	}
}

// No file is overwritten, also through a link, and --list leaves none. Without a run there is none of it in the bundle.
func TestSupportOverwritesNothing(t *testing.T) {
	b := newBundle(t, "echo asked >> $HOME/asked")
	b.s.List = true
	if err := b.desk.Support(t.Context(), b.s); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(b.s.To); err == nil || !strings.Contains(b.said.String(), "left out: no run of this user") {
		t.Errorf("%v, said\n%s", err, b.said.String())
	}
	b.s.List = false
	if err := os.Remove(filepath.Join(filepath.Dir(b.s.To), "asked")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("elsewhere", b.s.To); err != nil {
		t.Fatal(err)
	}
	if err := b.desk.Support(t.Context(), b.s); err == nil || !strings.Contains(err.Error(), "not overwritten") {
		t.Errorf("%v", err)
	}
	if err := create(b.s.To, nil); err == nil {
		t.Error("written through a link")
	}
	for _, name := range []string{"asked", "elsewhere"} {
		if _, err := os.Stat(filepath.Join(filepath.Dir(b.s.To), name)); err == nil {
			t.Errorf("there is %s", name)
		}
	}
}

// No secret of the environment or of a key file is inside, whatever commands say of it and however their lines are cut.
func TestSupportHoldsNoSecret(t *testing.T) {
	b := newBundle(t, `env; cat "$HOME/key" "$HOME/.ssh/id_rsa" "$HOME/tls/tls.key"; echo "--password hunter2hunter2"; echo https://u:pass@h/; echo "{\"k\":\"$(tr -d '\n' <$HOME/key)\"}"`)
	home := filepath.Dir(b.s.To)
	secrets := []string{"hunter2hunter2", "u:pass@", "ghp_0123456789abcdefghij", "odd but secret"}
	for _, name := range []string{"key", ".ssh/id_rsa", "tls/tls.key"} {
		line := base64.StdEncoding.EncodeToString([]byte(strings.Repeat(name, 8)))
		secrets = append(secrets, line)
		file := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, fmt.Appendf(nil, "-----BEGIN EC PRIVATE KEY-----\n%s\n-----END EC PRIVATE KEY-----\n", line), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b.s.Env = append(b.s.Env, "MPIUP_KEY="+filepath.Join(home, "key"), "MPIUP_DB_PASSWORD=odd but secret", "OMPI_X=ghp_0123456789abcdefghij",
		"MPIUP_TLS_DIR="+filepath.Join(home, "tls"), "UNHEARD=of")
	if err := b.desk.Support(t.Context(), b.s); err != nil {
		t.Fatal(err)
	}
	for name, text := range b.files(t) {
		for _, s := range secrets {
			if strings.Contains(text, s) {
				t.Errorf("%s holds %q", name, s)
			}
		}
		if strings.HasSuffix(name, "settings.txt") && (strings.Contains(text, "UNHEARD=") || !strings.Contains(text, "MPIUP_DB_PASSWORD=***\n")) {
			t.Errorf("%s", text)
		}
	}
}

// A command that writes for ever, or does not end, costs a bounded bundle.
func TestSupportIsBounded(t *testing.T) {
	b := newBundle(t, "[ $1 != ps ] || exec yes; [ $1 != peers ] || exec sleep 1000")
	b.s.partBound = 300 * time.Millisecond
	if err := b.desk.Support(t.Context(), b.s); err != nil {
		t.Fatal(err)
	}
	for name, text := range b.files(t) {
		if len(text) > maxPart+100 {
			t.Errorf("%s has %d bytes", name, len(text))
		}
	}
	for _, want := range []string{"ended after 300ms, its first 4194304 bytes", "ended after 300ms\n"} {
		if !strings.Contains(b.said.String(), want) {
			t.Errorf("no %q in\n%s", want, b.said.String())
		}
	}
}
