package placement

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestJobMap has maps that mpirun of Open MPI 4.1.4 and 5.0.7 showed, but for the job's name and, in 4.1.4,
// its number.
func TestJobMap(t *testing.T) {
	l := machines(t)["a"]
	for _, tt := range []struct {
		rules             Rules
		hosts, args, want string
	}{
		{OpenMPI4, "n0:2,n1:2", "-np 3 --map-by socket:PE=2", ` Data for JOB [1,1] offset 0 Total slots allocated 4

 ========================   JOB MAP   ========================

 Data for node: n0	Num slots: 2	Max slots: 0	Num procs: 2
 	Process OMPI jobid: [1,1] App: 0 Process rank: 0 Bound: socket 0[core 0[hwt 0-1]], socket 0[core 1[hwt 0-1]]:[BB/BB/../..][../../../..]
 	Process OMPI jobid: [1,1] App: 0 Process rank: 1 Bound: socket 1[core 4[hwt 0-1]], socket 1[core 5[hwt 0-1]]:[../../../..][BB/BB/../..]

 Data for node: n1	Num slots: 2	Max slots: 0	Num procs: 1
 	Process OMPI jobid: [1,1] App: 0 Process rank: 2 Bound: socket 0[core 0[hwt 0-1]], socket 0[core 1[hwt 0-1]]:[BB/BB/../..][../../../..]

 =============================================================
`},
		{OpenMPI4, "n0:2", "-np 1 --bind-to none", ` Data for JOB [1,1] offset 0 Total slots allocated 2

 ========================   JOB MAP   ========================

 Data for node: n0	Num slots: 2	Max slots: 0	Num procs: 1
 	Process OMPI jobid: [1,1] App: 0 Process rank: 0 Bound: N/A

 =============================================================
`},
		{OpenMPI5, "n0:8", "-np 3 --map-by package:PE=2", `
========================   JOB MAP   ========================
Data for JOB mpiup@1 offset 0 Total slots allocated 8
    Mapping policy: BYPACKAGE:NOOVERSUBSCRIBE  Ranking policy: FILL Binding policy: CORE:IF-SUPPORTED
    Cpu set: N/A  PPR: N/A  Cpus-per-rank: 2  Cpu Type: CORE


Data for node: n0	Num slots: 8	Max slots: 0	Num procs: 3
        Process jobid: mpiup@1 App: 0 Process rank: 0 Bound: package[0][core:0-1]
        Process jobid: mpiup@1 App: 0 Process rank: 1 Bound: package[0][core:2-3]
        Process jobid: mpiup@1 App: 0 Process rank: 2 Bound: package[1][core:4-5]

=============================================================
`},
		{OpenMPI5, "n0:2,n1:2", "--map-by ppr:1:package:HWTCPUS --rank-by node", `
========================   JOB MAP   ========================
Data for JOB mpiup@1 offset 0 Total slots allocated 4
    Mapping policy: BYPACKAGE:NOOVERSUBSCRIBE  Ranking policy: NODE Binding policy: PACKAGE:IF-SUPPORTED
    Cpu set: N/A  PPR: 1:package  Cpus-per-rank: N/A  Cpu Type: HWT


Data for node: n0	Num slots: 2	Max slots: 0	Num procs: 2
        Process jobid: mpiup@1 App: 0 Process rank: 0 Bound: package[0][hwt:0-7]
        Process jobid: mpiup@1 App: 0 Process rank: 2 Bound: package[1][hwt:8-15]

Data for node: n1	Num slots: 2	Max slots: 0	Num procs: 2
        Process jobid: mpiup@1 App: 0 Process rank: 1 Bound: package[0][hwt:0-7]
        Process jobid: mpiup@1 App: 0 Process rank: 3 Bound: package[1][hwt:8-15]

=============================================================
`},
		{OpenMPI5, "n0:1,n1:1", "-np 4 --map-by node:OVERSUBSCRIBE", `
========================   JOB MAP   ========================
Data for JOB mpiup@1 offset 0 Total slots allocated 4
    Mapping policy: BYNODE:OVERSUBSCRIBE  Ranking policy: NODE Binding policy: NONE
    Cpu set: N/A  PPR: N/A  Cpus-per-rank: N/A  Cpu Type: CORE


Data for node: n0	Num slots: 1	Max slots: 0	Num procs: 2
        Process jobid: mpiup@1 App: 0 Process rank: 0 Bound: N/A
        Process jobid: mpiup@1 App: 0 Process rank: 2 Bound: N/A

Data for node: n1	Num slots: 1	Max slots: 0	Num procs: 2
        Process jobid: mpiup@1 App: 0 Process rank: 1 Bound: N/A
        Process jobid: mpiup@1 App: 0 Process rank: 3 Bound: N/A

=============================================================
`},
	} {
		p, apps := policyOf(t, tt.args)
		p.Rules = tt.rules
		plan, err := Place(hostsOf(t, l, tt.hosts), apps, p)
		if err != nil {
			t.Errorf("%s: %v", tt.args, err)
			continue
		}
		if d := cmp.Diff(tt.want, JobMap(plan, p)); d != "" {
			t.Errorf("%s:\n%s", tt.args, d)
		}
	}
}
