package cli

import (
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
	"github.com/spf13/pflag"
)

func TestNative(t *testing.T) {
	for _, tt := range []struct {
		line       string
		openMPI    string // the other launcher's words, "|" between, or an error
		hydra, env string
	}{
		{"-n 2 a b", "-n|2|a|b", "-n|2|a|b", ""},
		{"a", "a", "a", ""},
		{"-n 1 -x A=1 --wdir /d a : -n 2 -x B=x=y b", "-n|1|-wdir|/d|-x|A=1|a|:|-n|2|-x|B=x=y|b", "-n|1|-wdir|/d|-env|A|1|a|:|-n|2|-env|B|x=y|b", ""},
		{"--host w0:2,w1 a", "-H|w0:2,w1:*|a", "-hosts|w0:2,w1|a", ""},
		{"-N 3 a", "--map-by|ppr:3:node|a", "-ppn|3|a", ""},
		{"--map-by ppr:3:node -N 3 a", "--map-by|ppr:3:node|a", "-ppn|3|a", ""},
		{"--map-by node --oversubscribe a", "--map-by|node|--oversubscribe|a", "-ppn|1|a", ""},
		{"--tag-output --output tag a", "--tag-output|a", "-l|a", ""},
		{"--timeout 90 --key /k --tls-dir /t --job j a", "-", "-", ""},
		{"--timeout 90 --key /k --job j a", "a", "a", "MPIUP_KEY=/k MPIUP_JOB=j MPIEXEC_TIMEOUT=90"},
		{"--timeout 1500ms a", "whole seconds", "whole seconds", ""},
		{"--output json a", "--output json", "--output json", ""},
		{"--net lo a", "--net is mpiup's own", "--net is mpiup's own", ""},
		{"--preload-binary a", "--preload-binary is mpiup's own", "--preload-binary is mpiup's own", ""},
		{"--dry-run a", "--dry-run is mpiup's own", "--dry-run is mpiup's own", ""},
	} {
		for hydra, want := range map[bool]string{false: tt.openMPI, true: tt.hydra} {
			var f RunFlags
			fs := pflag.NewFlagSet("", pflag.ContinueOnError)
			f.Register(fs)
			err := fs.Parse(Dashes(fs, append(strings.Fields("--mpi native"), strings.Fields(tt.line)...)))
			if err == nil {
				err = f.Check()
			}
			if want == "-" { // which Check refuses
				if err == nil {
					t.Errorf("%s passes", tt.line)
				}
				continue
			}
			if err != nil {
				t.Fatalf("%s: %v", tt.line, err)
			}
			apps, _, err := f.ParseApps(fs.Args(), line.Outside{Dir: "/here", LookPath: func(n string) (string, error) { return "/bin/" + n, nil }})
			if err != nil {
				t.Fatal(err)
			}
			var hosts []hostlist.Entry
			if hosts, err = f.Entries(); err != nil {
				t.Fatal(err)
			}
			args, env, err := f.Native(hydra, fs, apps, hosts)
			got := strings.Join(args, "|")
			if err != nil {
				got = err.Error()
			}
			if got != want && (err == nil || !strings.Contains(got, want)) || strings.Join(env, " ") != tt.env {
				t.Errorf("%s: %s %v, not %s", tt.line, got, env, want)
			}
		}
	}
}
