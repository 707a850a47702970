package ssh

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mpiup/mpiup/test/cost"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want Line
	}{
		{"a command", []string{"w0", "hostname", "-I"}, Line{Host: "w0", Command: "hostname -I"}},
		{"a shell", []string{"w0"}, Line{Host: "w0"}},
		{"user", []string{"mpiuser@w0", "true"}, Line{Host: "w0", User: "mpiuser", Command: "true", Without: []string{"user mpiuser"}}},
		{"at signs", []string{"a@b@w0", "true"}, Line{Host: "w0", User: "a@b", Command: "true", Without: []string{"user a@b"}}},
		{"address", []string{"-6", "fd00::1", "true"}, Line{Host: "fd00::1", Command: "true", Without: []string{"-6"}}},
		{"URI", []string{"ssh://me@w0:2222", "true"}, Line{Host: "w0", User: "me", Command: "true", Without: []string{"port 2222", "user me"}}},
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
			Line{Host: "w0", User: "me", Command: "true", Identity: []string{"/root/.ssh/id_rsa"}, Without: []string{"port 22", "user me"}}},
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
		{"remote command with the host", []string{"-o", "RemoteCommand=echo %h 100%% %n", "w0"}, Line{Host: "w0", Command: "echo w0 100% w0"}},
		{"another host is meant", []string{"-o", "HostName=%h.svc", "-oHostName=no", "w0", "true"}, Line{Host: "w0.svc", Command: "true"}},
		{"times", []string{"-o", "ConnectTimeout=1m30", "-oConnectTimeout=5", "w0", "true"}, Line{Host: "w0", Command: "true", Timeout: 90 * time.Second}},
		{"no time", []string{"-o", "ConnectTimeout=0", "w0", "true"}, Line{Host: "w0", Command: "true"}},
		{"the first of two", []string{"-o", "RequestTTY=force", "-o", "RequestTTY=no", "-o", "LogLevel=QUIET", "-o", "LogLevel=DEBUG", "-o", "User=a", "-l", "b", "w0", "true"},
			Line{Host: "w0", Command: "true", TTY: TTYForce, Quiet: true, User: "a", Without: []string{"user a", "user b"}}},
		{"a letter before a setting", []string{"-T", "-o", "RequestTTY=force", "w0", "true"}, Line{Host: "w0", Command: "true", TTY: TTYNever}},
		{"a letter after a setting", []string{"-o", "RequestTTY=no", "-t", "w0", "true"}, Line{Host: "w0", Command: "true", TTY: TTYAsked}},
		{"variables of any bytes", []string{"-o", "SetEnv=A=caf\xe9 B='\xff \u00a0' C=\u00a0", "w0", "env"},
			Line{Host: "w0", Command: "env", SetEnv: []string{"A=caf\xe9", "B=\xff \u00a0", "C=\u00a0"}}},
		{"variables with blanks", []string{"-o", `SetEnv=A="x y" B='z "' C=`, "-o", "SetEnv=D=1", "w0", "env"}, Line{Host: "w0", Command: "env", SetEnv: []string{"A=x y", `B=z "`, "C="}}},
		{"settings that may be unknown", []string{"-o", "IgnoreUnknown=Non*,x", "-o", "Nonsense=1", "w0", "true"}, Line{Host: "w0", Command: "true", Without: []string{"Nonsense 1"}}},
		{"a port by its service", []string{"-p", "ssh", "w0", "true"}, Line{Host: "w0", Command: "true", Without: []string{"port ssh"}}},
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
		{"-o ConnectTimeout=soon w0", "is no time"},
		{"-o ConnectTimeout=-1 w0", "is no time"},
		{"-o ConnectTimeout=99999999999w w0", "is no time"},
		{"-o ConnectionAttempts=0 w0", "no number above 0"},
		{"-o SetEnv=A='b w0", "a quote that does not end"},
		{"-o HostName=%p w0 true", "HostName has %p, which stands for nothing here"},
		{"-o RemoteCommand=a% w0", "RemoteCommand has %"},
		{"-o Include=f w0", "Include is of configuration files"},
		{"-p 0 w0", "is no port"},
		{"-o IgnoreUnknown=x -o Nonsense=1 w0", `unknown setting "Nonsense"`},
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
	for letter, o := range options() {
		if o.set != nil && o.refused != "" {
			t.Errorf("-%c is done and refused", letter)
		}
	}
	for name, r := range settings() {
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
		defer cost.Watch(t, cost.Parser, len(s))()
		l, err := Parse(strings.Split(s, " "))
		if err == nil && l.Host == "" && !l.Version {
			t.Error("no host and no error")
		}
	})
}

// TestAsOpenSSH has what OpenSSH 9.2 made of these lines (ssh -F none -G OPTIONS w0): whether it takes them.
// Values of settings that have no effect here are not looked at, so StrictHostKeyChecking=foo, for one, is
// refused there and taken here.
func TestAsOpenSSH(t *testing.T) {
	for _, tt := range []struct {
		taken bool
		lines []string
	}{
		{true, []string{"-o ConnectTimeout=1m", "-o ConnectTimeout=0", "-o ConnectTimeout=1h30", "-o ConnectTimeout=none", "-t -o RequestTTY=no",
			"-p ssh", "-l a -o User=b", "-o Port=1 -p 2", "-o IgnoreUnknown=Non* -o Nonsense=1", "-o Protocol=2", "-o Cipher=x", "-o UseRoaming=no",
			"-o GSSAPIKexAlgorithms=gss-group14-sha256-", "-o UsePrivilegedPort=no", "-o KeepAlive=yes", "-o DSAAuthentication=yes",
			"-o FallBackToRsh=no", "-o UseRsh=no", "-o CompressionLevel=6", "-o RhostsAuthentication=no", "-o UserKnownHostsFile2=x",
			"-o TISAuthentication=no", "-o AFSTokenPassing=no", "-o SmartcardDevice=x", "-o ProxyCommand=x", "-o ProxyJump=x",
			"-oUserKnownHostsFile=/dev/null -oLogLevel=ERROR", "-4 -6 -C", "-e x", "-b x", "-i /nope", "-P tag", "-o ControlPersist=10",
			"-o RequiredRSASize=1024", "-o HostName=w9", "-o SendEnv=A -o SendEnv=C", "-A -a -X -x -Y -y -K -k -g -M -q -T -n -v -v -v"}},
		{false, []string{"-o ConnectTimeout=-1", "-o ConnectionAttempts=0", "-o ConnectionAttempts=x", "-p 0", "-p 70000", "-p x", "-o Nonsense=1",
			"-o Include=x", "-o Match=all", "-o Host=x", "-o StdinNull=maybe", "-o ForkAfterAuthentication=yes", "-o BatchMode", "-o IdentityFile=", "-Z"}},
	} {
		for _, line := range tt.lines {
			if _, err := Parse(append(strings.Fields(line), "w0")); (err == nil) != tt.taken {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
}

func TestWhy(t *testing.T) {
	for without, want := range map[string]string{
		"-X": noDisplay, "-x": "agents are found and trusted by the job's own means", "-E /tmp/log": noLog, "ForwardX11 yes": noDisplay,
		"user me": "an agent runs everything as its own user", "StrictHostKeyChecking no": "agents are found and trusted by the job's own means",
	} {
		if got := Why(without); got != want {
			t.Errorf("%s: %s", without, got)
		}
	}
}

// Every letter: with what it needs, without it, and those that ssh does not have.
func TestEveryLetter(t *testing.T) {
	for c := byte('!'); c <= '~'; c++ {
		word := "-" + string(c)
		if c == '-' {
			continue
		}
		o, known := options()[c]
		_, alone := Parse([]string{word})
		line, valued := Parse([]string{word, "22", "w0", "true"})
		switch {
		case !known:
			if want := "unknown option " + word; alone == nil || alone.Error() != want || valued == nil || valued.Error() != want {
				t.Errorf("%s: %v, %v", word, alone, valued)
			}
		case strings.IndexByte(withValue, c) >= 0:
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
	for name, r := range settings() {
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
