package ssh

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want Line
	}{
		{"a command", []string{"w0", "hostname", "-I"}, Line{Host: "w0", Command: "hostname -I"}},
		{"a shell", []string{"w0"}, Line{Host: "w0"}},
		{"user", []string{"mpiuser@w0", "true"}, Line{Host: "w0", User: "mpiuser", Command: "true"}},
		{"at signs", []string{"a@b@w0", "true"}, Line{Host: "w0", User: "a@b", Command: "true"}},
		{"address", []string{"-6", "fd00::1", "true"}, Line{Host: "fd00::1", Command: "true", Without: []string{"-6"}}},
		{"URI", []string{"ssh://me@w0:2222", "true"}, Line{Host: "w0", User: "me", Command: "true"}},
		{"words keep their blanks", []string{"w0", "echo", "a  b", "$X;", "'c'"}, Line{Host: "w0", Command: "echo a  b $X; 'c'"}},
		{"options of the command", []string{"w0", "ls", "-l", "-n"}, Line{Host: "w0", Command: "ls -l -n"}},
		// horovod/runner/util/remote.py
		{"options after the host", []string{"-o", "PasswordAuthentication=no", "-o", "StrictHostKeyChecking=no", "w0", "-p", "2222", "-o", "ConnectTimeout=10", "cd /x && env A=b python t.py"},
			Line{Host: "w0", Command: "cd /x && env A=b python t.py", Timeout: 10 * time.Second,
				Without: []string{"PasswordAuthentication no", "StrictHostKeyChecking no", "port 2222"}}},
		// Open MPI's plm_rsh_args as the MPI Operator sets them
		{"Open MPI", []string{"-o", "ConnectionAttempts=10", "w0.svc", "PATH=/x:$PATH ; orted -mca ess \"env\""},
			Line{Host: "w0.svc", Command: "PATH=/x:$PATH ; orted -mca ess \"env\""}},
		{"attempts", []string{"-oConnectionAttempts=3", "-oConnectTimeout 5", "w0", "true"}, Line{Host: "w0", Command: "true", Timeout: 15 * time.Second}},
		{"Hydra", []string{"-x", "w0", "\"/usr/bin/hydra_pmi_proxy\"", "--control-port", "l:1"},
			Line{Host: "w0", Command: "\"/usr/bin/hydra_pmi_proxy\" --control-port l:1", Without: []string{"-x"}}},
		{"letters together", []string{"-nTqx", "w0", "true"}, Line{Host: "w0", Command: "true", NoStdin: true, TTY: TTYNever, Quiet: true, Without: []string{"-x"}}},
		{"a value in the word", []string{"-p22", "-lme", "-i/root/.ssh/id_rsa", "w0", "true"},
			Line{Host: "w0", User: "me", Command: "true", Without: []string{"port 22", "-i /root/.ssh/id_rsa"}}},
		{"terminal", []string{"-t", "w0", "top"}, Line{Host: "w0", Command: "top", TTY: TTYAsked}},
		{"terminal, forced", []string{"-tt", "w0", "top"}, Line{Host: "w0", Command: "top", TTY: TTYForce}},
		{"terminal, forced in two words", []string{"-t", "w0", "-t", "top"}, Line{Host: "w0", Command: "top", TTY: TTYForce}},
		{"background", []string{"-f", "w0", "sleep", "9"}, Line{Host: "w0", Command: "sleep 9", Background: true, NoStdin: true}},
		{"nothing", []string{"-N", "-f", "w0"}, Line{Host: "w0", Nothing: true, Background: true, NoStdin: true}},
		{"two hyphens", []string{"-T", "--", "w0", "true"}, Line{Host: "w0", Command: "true", TTY: TTYNever}},
		{"two hyphens after the host", []string{"w0", "--", "-x"}, Line{Host: "w0", Command: "-x"}},
		{"version", []string{"-V"}, Line{Version: true}},
		{"environment", []string{"-o", "SetEnv A=1 B=2", "-o", "SendEnv LC_* X", "w0", "env"},
			Line{Host: "w0", Command: "env", SetEnv: []string{"A=1", "B=2"}, SendEnv: []string{"LC_*", "X"}}},
		{"remote command", []string{"-o", "RemoteCommand=uptime", "w0"}, Line{Host: "w0", Command: "uptime"}},
		{"quoted value", []string{"-o", `UserKnownHostsFile = "/dev/null"`, "w0", "true"}, Line{Host: "w0", Command: "true", Without: []string{"UserKnownHostsFile /dev/null"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse(tt.args)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	for _, tt := range []struct {
		args, want string // want: part of the error
	}{
		{"", "which host?"},
		{"-q", "which host?"},
		{"-Z w0 true", "unknown option -Z"},
		{"-p", "option -p needs a value"},
		{"-p x w0", `-p: "x" is no port`},
		{"-L 1:w1:2 w0", "-L asks for port forwarding"},
		{"-o LocalForward=1 w0", "LocalForward asks for port forwarding"},
		{"-o Nonsense=1 w0", `unknown setting "Nonsense"`},
		{"-o BatchMode w0", "BatchMode has no value"},
		{"-o StdinNull=maybe w0", "neither yes nor no"},
		{"-o ConnectTimeout=soon w0", "no number above 0"},
		{"-o RequestTTY=perhaps w0", "none of no, yes, force and auto"},
		{"-o SetEnv=A w0", "no NAME=value"},
		{"-s w0 sftp", "-s asks for a subsystem"},
		{"-O exit w0", "-O speaks to another ssh process"},
		{"-N w0 true", "-N runs nothing"},
		{"-f w0", "-f goes to the background with a command"},
		{"me@", "is no host"},
		{"ssh://w0/path true", "is no ssh://"},
		{"-o RemoteCommand=a w0 b", "a command is given twice"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			_, err := Parse(strings.Fields(tt.args))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// Every letter and setting does something or says that it does not: none is both.
func TestRows(t *testing.T) {
	for letter, o := range options {
		if o.set != nil && o.refused != "" {
			t.Errorf("-%c is done and refused", letter)
		}
	}
	for name, r := range settings {
		if r.set != nil && r.refused != "" || name != strings.ToLower(name) {
			t.Errorf("%s: a row that contradicts itself", name)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"-nTx w0 true", "-o ConnectTimeout=1 a@b -- -x", "-oo=o=o w0", "ssh://a@[::1]:2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := Parse(strings.Split(s, " "))
		if err == nil && l.Host == "" && !l.Version {
			t.Error("no host and no error")
		}
	})
}

// Every letter: with what it needs, without it, and those that ssh does not have.
func TestEveryLetter(t *testing.T) {
	for c := byte('!'); c <= '~'; c++ {
		word := "-" + string(c)
		if c == '-' {
			continue
		}
		o, known := options[c]
		_, alone := Parse([]string{word})
		line, valued := Parse([]string{word, "22", "w0", "true"})
		switch {
		case !known:
			if want := "unknown option " + word; alone == nil || alone.Error() != want || valued == nil || valued.Error() != want {
				t.Errorf("%s: %v, %v", word, alone, valued)
			}
		case o.takesValue:
			if alone == nil || alone.Error() != "option "+word+" needs a value" {
				t.Errorf("%s alone: %v", word, alone)
			}
			if (o.refused != "" || c == 'o') != (valued != nil) || valued == nil && (line.Host != "w0" || line.Command != "true") {
				t.Errorf("%s 22 w0 true: %+v, %v", word, line, valued)
			}
		case o.refused != "":
			if alone == nil || !strings.HasPrefix(alone.Error(), word+" ") {
				t.Errorf("%s: %v", word, alone)
			}
		case c == 'V':
			if alone != nil {
				t.Errorf("%s: %v", word, alone)
			}
		default:
			if alone == nil || alone.Error() != "which host? write ssh [options] HOST [command]" {
				t.Errorf("%s: %v", word, alone)
			}
			if c != 'N' && (valued != nil || line.Host != "22" || line.Command != "w0 true") {
				t.Errorf("%s 22 w0 true: %+v, %v", word, line, valued)
			}
			if valued == nil && o.set == nil && len(line.Without) != 1 {
				t.Errorf("%s has no effect, which nobody is told", word)
			}
		}
	}
}

// Every setting of -o: misspelt, and without its value.
func TestEverySetting(t *testing.T) {
	for name, r := range settings {
		for _, form := range []string{name, name + "=", strings.ToUpper(name) + " "} {
			if _, err := Parse([]string{"-o", form, "w0"}); err == nil || !strings.HasSuffix(err.Error(), " has no value") || !strings.HasPrefix(strings.ToLower(err.Error()), "-o: "+name) {
				t.Errorf("-o %q: %v", form, err)
			}
		}
		if _, err := Parse([]string{"-o" + name + "xq=1", "w0"}); err == nil || err.Error() != `-o: unknown setting "`+name+`xq"` {
			t.Errorf("%sxq: %v", name, err)
		}
		line, err := Parse([]string{"-o", name + "=\x01", "w0", "true"})
		switch {
		case r.refused != "":
			if err == nil || !strings.HasPrefix(err.Error(), "-o: "+name+" ") {
				t.Errorf("%s: %v", name, err)
			}
		case r.set == nil:
			if err != nil || len(line.Without) != 1 {
				t.Errorf("%s: %+v, %v", name, line, err)
			}
		case err != nil && name != "remotecommand" && !strings.HasPrefix(err.Error(), "-o: "+name+": "):
			t.Errorf("%s: %v", name, err)
		}
	}
}
