package doctor

import "slices"

// Program is a benchmark that images may have.
type Program struct {
	Name  string // of its file
	Also  string // another name of the same, built with MPI; "": none
	From  string // what it is part of
	Where string // how an image gets it
}

// Programs are those that --fabric starts, in this order.
var Programs = []Program{
	{Name: "ib_write_bw", From: "perftest", Where: "apt-get install perftest"},
	{Name: "osu_latency", From: "OSU micro-benchmarks", Where: "mvapich.cse.ohio-state.edu/benchmarks, built with the image's MPI"},
	{Name: "osu_bw", From: "OSU micro-benchmarks"},
	{Name: "osu_allreduce", From: "OSU micro-benchmarks"},
	{Name: "all_reduce_perf", Also: "all_reduce_perf_mpi", From: "nccl-tests", Where: "github.com/NVIDIA/nccl-tests, built with MPI=1"},
}

// ProgramNames is what agents look for.
func ProgramNames() (names []string) {
	for _, p := range Programs {
		names = append(names, p.Name)
		if p.Also != "" {
			names = append(names, p.Also)
		}
	}
	return names
}

// The units of values.
const (
	MBs   = "MB/s" // 10^6 bytes a second: more is better
	Micro = "us"   // less is better
)

// Test is one way to run a program.
type Test struct {
	Program string
	Title   string // "osu_bw 1 MiB"; by it a baseline knows the test again
	Unit    string
	// Args are tried in turn: older releases lack options, and say so on their way to a result that is none.
	Args [][]string
	// Oneway: the way back is the same, and not measured again.
	Oneway bool
	Parse  func(output string) (float64, error)
}

// Sizes at which MPI is measured: a message of a few bytes costs what the way costs, one of 1 MiB what its
// bandwidth allows.
const (
	small = 8
	large = 1 << 20
)

// PairTests are run between each two hosts, one rank on each.
var PairTests = []Test{
	{Program: "osu_latency", Title: "osu_latency 8 B", Unit: Micro, Oneway: true, Parse: atSize(small),
		Args: [][]string{{"-m", "8:8", "-i", "1000", "-x", "100"}, {"-i", "200", "-x", "20"}, nil}},
	{Program: "osu_bw", Title: "osu_bw 1 MiB", Unit: MBs, Parse: atSize(large),
		Args: [][]string{{"-m", "1048576:1048576", "-i", "10", "-x", "2"}, {"-i", "10", "-x", "2"}, nil}},
}

// WholeTests are run by all ranks of all hosts at once. Both are of one program, whose output has them all.
var WholeTests = []Test{
	{Program: "osu_allreduce", Title: "osu_allreduce 8 B", Unit: Micro, Parse: atSize(small), Args: allreduce},
	{Program: "osu_allreduce", Title: "osu_allreduce 1 MiB", Unit: Micro, Parse: atSize(large), Args: allreduce},
}

var allreduce = [][]string{{"-m", "8:1048576", "-i", "100", "-x", "20"}, {"-m", "1048576", "-i", "100", "-x", "20"}, nil}

// VerbsTest is ib_write_bw between one device of each of two hosts.
func VerbsTest(device string) Test {
	return Test{Program: "ib_write_bw", Title: "ib_write_bw " + device, Unit: MBs, Parse: perftestRate,
		Args: [][]string{{"-F", "--report_gbits", "-s", "1048576", "-n", "5000"}}}
}

// ncclArgs: one size that fills the links, unchecked.
var ncclArgs = []string{"-b", "512M", "-e", "512M", "-n", "20", "-w", "5", "-c", "0"}

// NCCLTest is all_reduce_perf, with one GPU a process or all of a host in one.
func NCCLTest(title, gpus string) Test {
	return Test{Program: "all_reduce_perf", Title: title, Unit: MBs, Parse: ncclRate, Args: [][]string{append(slices.Clone(ncclArgs), "-g", gpus)}}
}
