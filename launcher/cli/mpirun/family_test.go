package mpirun

import (
	"strings"
	"testing"

	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

func TestDecide(t *testing.T) {
	for _, tt := range []struct {
		name, line string
		world
		program string // the library that a.out needs
		want    line.Family
		why     string
	}{
		{name: "mpirun", line: "-np 4 a.out", want: line.OpenMPI, why: "nothing says otherwise"},
		{name: "mpiexec", line: "-n 4 a.out", want: line.OpenMPI, why: "nothing says otherwise"},
		{name: "mpirun", line: "-np 4 a.out", program: "MPICH 4.2", want: line.Hydra, why: "its library is what a.out needs"},
		{name: "/usr/bin/mpiexec.hydra", line: "-np 4 a.out", want: line.Hydra, why: "it is called mpiexec.hydra"},
		{name: "prterun", line: "-np 4 a.out", program: "MPICH 4.2", want: line.OpenMPI, why: "it is called prterun"},
		{name: "mpirun", line: "-np 4 -x A a.out", program: "MPICH 4.2", want: line.OpenMPI, why: "only Open MPI has -x"},
		{name: "mpirun", line: "-np 4 --mca btl self a.out", want: line.OpenMPI, why: "only Open MPI has --mca"},
		{name: "mpirun", line: "-H a:2 a.out", want: line.OpenMPI, why: "only Open MPI has -H"},
		{name: "mpirun", line: "-np=4 -ppn 2 a.out", world: world{env: "OMPI_MCA_orte_default_hostfile=/f"}, want: line.Hydra, why: "only Hydra has -ppn"},
		{name: "mpirun", line: "-n 4 -genv A x a.out -x", want: line.Hydra, why: "only Hydra has -genv"},
		{name: "mpirun", line: "-n 1 a.out : -n 3 -env A 1 b.out", want: line.Hydra, why: "only Hydra has -env"},
		{name: "mpirun", line: "-n 4 a.out -ppn 2", want: line.OpenMPI, why: "nothing says otherwise"},
		{name: "mpirun", line: "-wdir -ppn a.out", want: line.OpenMPI, why: "nothing says otherwise"},
		{name: "mpirun", line: "-n 4 a.out", world: world{env: "OMPI_MCA_orte_default_hostfile=/f"}, program: "MPICH 4.2", want: line.OpenMPI, why: "OMPI_MCA_orte_default_hostfile is set"},
		{name: "mpirun", line: "-n 4 a.out", world: world{env: "HYDRA_HOST_FILE=/f"}, program: "Open MPI 4.1.6", want: line.Hydra, why: "HYDRA_HOST_FILE is set"},
		{name: "mpirun", line: "-n 4 a.out", world: world{env: "I_MPI_HYDRA_HOST_FILE=/f"}, want: line.Hydra, why: "I_MPI_HYDRA_HOST_FILE is set"},
		{name: "mpirun", line: "-x A a.out", world: world{env: "MPIUP_FAMILY=Hydra"}, want: line.Hydra, why: "MPIUP_FAMILY says so"},
		{name: "mpiexec.hydra", line: "a.out", world: world{env: "MPIUP_FAMILY=ompi"}, want: line.OpenMPI, why: "MPIUP_FAMILY says so"},
		{name: "mpirun", line: "-s 1 a.out", program: "MPICH 4.2", want: line.OpenMPI, why: "nothing says otherwise"}, // Open MPI's takes no value
		{name: "mpirun", line: "--version", want: line.OpenMPI, why: "nothing says otherwise"},
		{name: "mpirun", line: "-bogus 4 a.out", program: "MPICH 4.2", want: line.OpenMPI, why: "nothing says otherwise"},
		{name: "mpirun", line: "", want: line.OpenMPI, why: "nothing says otherwise"},
	} {
		o := tt.outside()
		got, why, err := Decide(tt.name, words(t, tt.line), o.Lookup, func(argv []string) string {
			if argv[0] == "a.out" {
				return tt.program
			}
			t.Errorf("%s: asked about %q", tt.line, argv)
			return ""
		})
		if err != nil || got != tt.want || why != tt.why {
			t.Errorf("%s %s: %s, since %s, %v; not %s, since %s", tt.name, tt.line, got, why, err, tt.want, tt.why)
		}
	}
	o := world{env: "MPIUP_FAMILY=lam"}.outside()
	if _, _, err := Decide("mpirun", nil, o.Lookup, nil); err == nil || !strings.Contains(err.Error(), `MPIUP_FAMILY is "lam"`) {
		t.Errorf("error %v", err)
	}
}

func TestVersion(t *testing.T) {
	for _, tt := range []struct {
		name, line string
		world
		program string // the library that a.out needs
		want    bool
		why     string
	}{
		{name: "mpirun", line: "-np 4 a.out", why: "nothing says otherwise"},
		{name: "mpirun", line: "-np 4 a.out", program: "Open MPI 5.0.7", want: true, why: "a.out needs a library of Open MPI 5"},
		{name: "mpirun", line: "-np 4 a.out", program: "Open MPI 4.1.6", why: "a.out needs a library of Open MPI 4"},
		{name: "mpirun", line: "-np 4 -- a.out --display map", program: "Open MPI 4.1.6", why: "a.out needs a library of Open MPI 4"},
		{name: "prterun", line: "-np 4 a.out", program: "Open MPI 4.1.6", want: true, why: "it is called prterun"},
		{name: "mpirun", line: "-np 4 --display map a.out", program: "Open MPI 4.1.6", want: true, why: "Open MPI 4.1 has no --display"},
		{name: "mpirun", line: "--output=tag a.out", want: true, why: "Open MPI 4.1 has no --output"},
		{name: "mpirun", line: "-n 1 a.out : --omca a b -n 1 b", program: "Open MPI 4.1.6", want: true, why: "Open MPI 4.1 has no --omca"},
		{name: "mpirun", line: "--map-by Package:PE=2 a.out", program: "Open MPI 4.1.6", want: true, why: "Open MPI 4.1 has no --map-by Package:PE=2"},
		{name: "mpirun", line: "--map-by slot:HWTCPUS a.out", want: true, why: "Open MPI 4.1 has no --map-by slot:HWTCPUS"},
		{name: "mpirun", line: "--map-by socket:PE=2 --bind-to core a.out", program: "Open MPI 4.1.6", why: "a.out needs a library of Open MPI 4"},
		{name: "mpirun", line: "--display map a.out", world: world{env: "MPIUP_FAMILY=openmpi4"}, why: "MPIUP_FAMILY says so"},
		{name: "mpirun", line: "a.out", world: world{env: "MPIUP_FAMILY=OpenMPI5"}, program: "Open MPI 4.1.6", want: true, why: "MPIUP_FAMILY says so"},
		{name: "mpirun", line: "--version", why: "nothing says otherwise"},
		{name: "mpirun", line: "--app f", world: world{files: map[string]string{"f": "-np 2 a.out x\n"}}, program: "Open MPI 5.0.7", want: true, why: "a.out needs a library of Open MPI 5"},
		{name: "mpirun", line: "--version a.out", program: "Open MPI 5.0.7", want: true, why: "a.out needs a library of Open MPI 5"},
		{name: "mpirun", line: "--version -np 2 --display map", want: true, why: "Open MPI 4.1 has no --display"},
	} {
		l, err := Parse(line.OpenMPI, words(t, tt.line), tt.outside())
		if err != nil {
			t.Fatalf("%s: %v", tt.line, err)
		}
		five, why := Version(tt.name, &l, tt.outside().Lookup, func(argv []string) string {
			if argv[0] == "a.out" {
				return tt.program
			}
			t.Errorf("%s: asked about %q", tt.line, argv)
			return ""
		})
		if five != tt.want || why != tt.why {
			t.Errorf("%s %s: %t, since %s; not %t, since %s", tt.name, tt.line, five, why, tt.want, tt.why)
		}
	}
}

func TestIntel(t *testing.T) {
	for _, tt := range []struct {
		line string
		world
		program string // the library that a.out needs
		want    bool
		why     string
	}{
		{line: "-n 4 a.out", why: "nothing says otherwise"},
		{line: "-n 4 a.out", program: "Intel MPI 2021.18", want: true, why: "a.out needs a library of that kind"},
		{line: "-n 4 a.out", program: "MPICH 4.0.2", world: world{env: "I_MPI_ROOT=/opt/intel"}, why: "a.out needs a library of that kind"},
		{line: "-n 4 a.out", world: world{env: "I_MPI_ROOT=/opt/intel"}, want: true, why: "I_MPI_ROOT is set"},
		{line: "-n 4 a.out", world: world{env: "I_MPI_HYDRA_HOST_FILE=/f"}, want: true, why: "I_MPI_HYDRA_HOST_FILE is set"},
		{line: "-n 4 a.out", world: world{env: "I_MPI_PERHOST="}, why: "nothing says otherwise"},
		{line: "-n 4 -PerHost 2 a.out", program: "MPICH 4.0.2", want: true, why: "MPICH has no -PerHost"},
		{line: "-ppn 2 a.out", why: "nothing says otherwise"},
		{line: "-perhost 2 a.out", world: world{env: "MPIUP_FAMILY=MPICH"}, why: "MPIUP_FAMILY says so"},
		{line: "a.out", world: world{env: "MPIUP_FAMILY=intel"}, program: "MPICH 4.0.2", want: true, why: "MPIUP_FAMILY says so"},
		{line: "a.out", world: world{env: "MPIUP_FAMILY=hydra"}, program: "Intel MPI 2019", want: true, why: "a.out needs a library of that kind"},
	} {
		l, err := Parse(line.Hydra, words(t, tt.line), tt.outside())
		if err != nil {
			t.Fatalf("%s: %v", tt.line, err)
		}
		intel, why := Intel(&l, tt.outside().Lookup, func([]string) string { return tt.program })
		if intel != tt.want || why != tt.why {
			t.Errorf("%s: %t, since %s; not %t, since %s", tt.line, intel, why, tt.want, tt.why)
		}
	}
}

// Open MPI's mpirun --version complains of a wrong option behind it, too, up to the first program.
func TestVersionOfAWrongLine(t *testing.T) {
	for args, wrong := range map[string]bool{"--version --bogus": true, "--help -np x a.out": true, "--version a.out : --bogus": false, "--version :": false} {
		for _, f := range []line.Family{line.OpenMPI, line.Hydra} {
			if _, err := Parse(f, words(t, args), world{}.outside()); (err != nil) != wrong {
				t.Errorf("%s, %s: %v", f, args, err)
			}
		}
	}
}

// Every option is in the help, however far it is done, and no line is too wide.
func TestHelpText(t *testing.T) {
	for _, f := range []line.Family{line.OpenMPI, line.Hydra} {
		help := HelpText(f, "/usr/bin/mpirun")
		for _, r := range rowsOf(f) {
			if names := strings.Join(r.Spelled(), ", "); len(names) < 60 && !strings.Contains(help, "  "+names) {
				t.Errorf("%s: %s is missing", f, names)
			}
		}
		for line := range strings.Lines(help) {
			if len([]rune(line)) > 101 || strings.ContainsAny(line, "`[]") && strings.Contains(line, ".md") {
				t.Errorf("%s: %q", f, line)
			}
		}
		if !strings.HasPrefix(help, "mpirun (mpiup), read as "+string(f)+"'s") || !strings.Contains(help, "\nExamples:\n  mpi") {
			t.Errorf("%s: %.300q", f, help)
		}
	}
}

// Horovod and Accelerate look for words in what --version prints (horovodrun: "Open MPI" or
// "OpenRTE", "MPICH" or "HYDRA").
func TestVersionText(t *testing.T) {
	for _, tt := range []struct {
		family line.Family
		five   bool
		name   string
		want   string
	}{
		{line.OpenMPI, false, "mpirun", "mpirun (Open MPI) 4.1.6 (mpiup v1)\n"},
		{line.OpenMPI, false, "/usr/bin/orterun", "orterun (OpenRTE) 4.1.6 (mpiup v1)\n"},
		{line.OpenMPI, true, "mpirun", "mpirun (Open MPI) 5.0.7 (mpiup v1)\n"},
		{line.OpenMPI, true, "prterun", "prterun (Open MPI) 5.0.7 (mpiup v1)\n"},
		{line.Hydra, false, "mpiexec", "HYDRA build details:\n    Version: "},
	} {
		if got := VersionText(tt.family, tt.five, tt.name, "v1"); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
}
