package cli

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

func TestMoments(t *testing.T) {
	now := time.Date(2026, 11, 23, 4, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{"": {}, "10m": now.Add(-10 * time.Minute), "90": now.Add(-90 * time.Second),
		"2026-11-23T03:00:00+01:00": now.Add(-2 * time.Hour)} {
		if got, err := ParseMoment(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
}

// Times may be written as Slurm has them, where it is clear what they mean.
func TestSlurmsTimes(t *testing.T) {
	for text, want := range map[string]time.Duration{"00:01:00": time.Minute, "1:00:00": time.Hour, "1-12:00:00": 36 * time.Hour, "90:00:05": 90*time.Hour + 5*time.Second} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%s is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"1:00", "-1:00:00", "1-12", "1:2:3:4", ":00:10", "1-:10:10", "99999:00:00"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%s is %v", text, got)
		}
	}
}

// Whatever a flag is made of, it is handed on to another command with the texts it was given, as mpiup support does.
func TestGivenFlagsAreHandedOn(t *testing.T) {
	candidates := []string{"2", "7s", "node", "core", "file.svg", "w0:2,w1", "0-3", "TERM", "tag", "host", "first", "abort", "fence", "pmi1", "eth0",
		"18000-18999", "tcp", "p2p=off", "0 nsys profile", "/work", "X=1", "loss ([0-9.]+)", "1.2.3.4:9", "true", "auto", "none", "step=1", "closest",
		"notice", "loss < 5", "loss<5", "on", "off", "all", "throughput: (?P<rate>[0-9.]+)"}
	flags := func() *pflag.FlagSet {
		fs := pflag.NewFlagSet("run", pflag.ContinueOnError)
		new(RunFlags).Register(fs)
		return fs
	}
	flags().VisitAll(func(f *pflag.Flag) {
		var took []string
		for _, text := range candidates {
			fs := flags()
			if fs.Set(f.Name, text) != nil {
				continue
			}
			took = append(took, text)
			if got, want := Given(fs), []string{"--" + f.Name + "=" + text}; !slices.Equal(got, want) {
				t.Errorf("given %q, handed on %q", want, got)
			}
		}
		if took == nil {
			t.Errorf("--%s takes none of the values of this test: add one", f.Name)
		}
	})

	fs := flags()
	if err := fs.Parse(Dashes(fs, strings.Fields("-H w0 --hosts=w1:4 -key k --insecure -vv --wait 5 -x A=1 -x B=2"))); err != nil {
		t.Fatal(err)
	}
	want := []string{"--host=w0", "--host=w1:4", "--wait=5", "--key=k", "--insecure=true", "--export=A=1", "--export=B=2"}
	if got := Given(fs, "verbose"); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		t.Errorf("handed on %q, not %q", got, want)
	}
}
