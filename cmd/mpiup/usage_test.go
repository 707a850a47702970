package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/spf13/pflag"
)

// said calls the binary with argv and returns its exit code and what it wrote to standard error.
func said(t *testing.T, argv ...string) (code int, text string) {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	errs, err := os.OpenFile(filepath.Join(t.TempDir(), "stderr"), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer errs.Close()
	code = run(argv, []string{"PATH=/usr/bin:/bin", "HOME=/nonexistent", "MPIUP_KEY=/nonexistent"}, null, null, errs)
	b, err := io.ReadAll(io.NewSectionReader(errs, 0, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	return code, string(b)
}

// Every flag of every command: misspelt it is an error that names it, and so it is without its value;
// a switch takes no value but yes and no.
func TestEveryFlag(t *testing.T) {
	root := rootCommand(&process{}, "")
	for _, c := range root.Commands() {
		if c.DisableFlagParsing { // the names of other programs have tables of their own
			continue
		}
		name := c.Name()
		c.Flags().VisitAll(func(f *pflag.Flag) {
			wrong := []string{"--" + f.Name + "xq", "--x" + f.Name, "--" + strings.ToUpper(f.Name)}
			if first := c.Flags().ShorthandLookup(f.Name[:1]); first == nil || first.NoOptDefVal != "" { // else the rest is its value, as of -n4
				wrong = append(wrong, "-"+f.Name+"-")
			}
			for _, w := range wrong {
				refusesFlag(t, name, w, "unknown flag -")
			}
			switch f.NoOptDefVal {
			case "":
				refusesFlag(t, name, "--"+f.Name, "--"+f.Name+" needs a value")
				if f.Shorthand != "" {
					refusesFlag(t, name, "-"+f.Shorthand, "-"+f.Shorthand+" needs a value")
				}
			case "true":
				refusesFlag(t, name, "--"+f.Name+"=maybe", "maybe")
			}
			for _, v := range badValues[f.Value.Type()] {
				refusesFlag(t, name, "--"+f.Name+"="+v, "-")
			}
		})
	}
}

// badValues are no values of flags of a type.
var badValues = map[string][]string{
	"int": {"x", "1.5", "", "99999999999999999999", "0x"}, "N": {"x", "0", "-1", "1.5", "", "99999999999999999999"},
	"hosts": {"", ",", "a,,b", "a:0", "a:x", "a b", "a;b", "$(x)", "a\nb"}, "VAR[=V]": {"", "=1", "a b=1", "A,B"},
	"TIME": {"", "x", "-1", "5 m", "1e99"},
}

// refusesFlag runs a command whose only mistake is the flag.
func refusesFlag(t *testing.T, command, flag, says string) {
	t.Helper()
	code, text := said(t, "mpiup", command, flag)
	if code != job.ExitUsage || !strings.HasPrefix(text, "mpiup: ") || !strings.Contains(text, says) || strings.Count(text, "\n") > 2 {
		t.Errorf("mpiup %s %s: code %d, %q, not %q", command, flag, code, text, says)
	}
	if bare, _, _ := strings.Cut(strings.TrimLeft(flag, "-"), "="); strings.HasPrefix(says, "unknown") && !strings.Contains(text, bare[:min(len(bare), 37)]) {
		t.Errorf("mpiup %s %s: %q does not name the flag", command, flag, text)
	}
}

// Commands without what they need, and words that no command is.
func TestMissingWords(t *testing.T) {
	for _, tt := range []struct {
		line, says string
		code       int
	}{
		{"mpiup rum true", `"rum" is no command; did you mean: mpiup run`, 240},
		{"mpiup run", "no program is named; try: mpiup run -n 4 ./a.out", 240},
		{"mpiup run -n 2 --", "no program is named", 240},
		{"mpiup run true :", `program 2 has no name`, 240},
		{"mpiup run : true", `program 1 has no name`, 240},
		{"mpiup run true : -n", "program 2: -n needs a value", 240},
		{"mpiup run true : --bogus a", "program 2: unknown flag --bogus", 240},
		{"mpiup run true : --timeout 1 a", "--timeout concerns the whole run and stands before the first program", 240},
		{"mpiup exec", "exec: which host? write mpiup exec HOST -- COMMAND", 240},
		{"mpiup exec --", "exec: which host?", 240},
		{"mpiup exec -it", "exec: which host?", 240},
		{"mpiup exec --host w0 ls", "exec: the host stands alone, without --host: write mpiup exec w0 -- ls", 240},
		{"mpiup agent --slots x", `--slots: "x" is not a number`, 240},
		{"mpiup agent --log-json=x", `--log-json: "x" is neither true nor false`, 240},
		{"mpiup agent --nproc-per-node 2", "unknown flag --nproc-per-node; --help lists the flags", 240},
		{"mpiup exec w0", "exec: what is to run on w0?", 240},
		{"mpiup exec w0 --", "exec: what is to run on w0?", 240},
		{"mpiup exec w0 -t", "exec: -t stands after the host", 240},
		{"mpiup agent w0", `unknown command "w0" for "mpiup agent"`, 240},
		{"mpiup launcher", "", 240},
		{"mpiup install", "install takes one directory", 240},
		{"ssh", "ssh (mpiup): which host? write ssh [options] HOST [command]", 255},
		{"mpirun", "mpirun (mpiup): which program? write mpirun -n 4 ./a.out", 240},
		{"mpiexec.hydra -n 2", "mpiexec.hydra (mpiup): which program?", 240},
		{"orterun -np", "orterun (mpiup): -np needs a value", 240},
		{"prterun --map-by", "prterun (mpiup): --map-by needs a value", 240},
	} {
		code, text := said(t, strings.Fields(tt.line)...)
		if code != tt.code || !strings.Contains(text, tt.says) || text == "" {
			t.Errorf("%s: code %d, %q, not %q", tt.line, code, text, tt.says)
		}
	}
}

// Every letter of sshd: alone, without its value, and those that it does not have.
func TestEveryFlagOfSSHD(t *testing.T) {
	for c := byte('!'); c <= '~'; c++ {
		word := "-" + string(c)
		_, alone := parseSSHD([]string{word})
		_, valued := parseSSHD([]string{word, "value"})
		switch {
		case strings.IndexByte("46DdeGqrTtV", c) >= 0:
			if alone != nil || valued == nil || valued.Error() != `"value" is not a flag of sshd` {
				t.Errorf("%s: %v, with a value %v", word, alone, valued)
			}
		case strings.IndexByte("CEbcfghkopRu", c) >= 0:
			if alone == nil || alone.Error() != "option "+word+" needs a value" || valued != nil {
				t.Errorf("%s: %v, with a value %v", word, alone, valued)
			}
		case c == '-': // the end of the options, as getopt(3) has it
			if alone != nil || valued == nil {
				t.Errorf("--: %v, with a value %v", alone, valued)
			}
		case c == 'i':
			if alone == nil || !strings.HasPrefix(alone.Error(), "-i serves one connection") {
				t.Errorf("-i: %v", alone)
			}
		default:
			if alone == nil || alone.Error() != "unknown flag "+word {
				t.Errorf("%s: %v", word, alone)
			}
		}
	}
	if code, text := said(t, "sshd", "-Z"); code != 1 || text != "sshd (mpiup): unknown flag -Z\n" {
		t.Errorf("code %d, %q", code, text)
	}
}

// Where a job has no secret, what to do about it is in lines of its own.
func TestNoSecretIsReadable(t *testing.T) {
	code, _, text := command(t, "run", "--host", "w0", "true")
	if code != job.ExitTLS || strings.Contains(text, `\n`) || strings.Count(text, "\n") < 3 {
		t.Errorf("exit code %d: %s", code, text)
	}
}

func TestNegativeSlots(t *testing.T) {
	if code, text := said(t, "mpiup", "agent", "--insecure", "--slots", "-3"); code != job.ExitUsage || !strings.Contains(text, "--slots: -3") {
		t.Errorf("exit code %d: %s", code, text)
	}
}
