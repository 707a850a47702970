package attack

import (
	"encoding/json"
	"strings"
	"testing"
)

// A log names a host that is a second command, in each way in which logs name hosts. It is no host of the verdict, and no line of advice has it.
func TestHostsOfLogsThatAreCommands(t *testing.T) {
	for _, bad := range []string{"w1;touch${IFS}pwn", "$(touch${IFS}pwn)", "`touch${IFS}pwn`", "--kubeconfig=x", "-w", "w'1", "w\"1", "w|sh", "w&", "w>x", "../w"} {
		for name, log := range map[string]string{
			"mpiup's words":   "mpiup: rank 1 on HOST was killed by signal 9 (SIGKILL)\nmpiup: rank 1 on HOST (pid 7) exited with code 3\n",
			"Hydra's":         "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 103 RUNNING AT HOST\n=   EXIT CODE: 9\n=   KILLED BY SIGNAL: 9 (Killed)\n",
			"Open MPI's":      "mpirun noticed that process rank 1 with PID 0 on node HOST exited on signal 9 (Killed).\n",
			"PRTE's":          "prterun noticed that process rank 1 with PID 7 on node HOST exited on signal 11 (Segmentation fault).\n",
			"a record":        `{"time":"2026-11-23T04:00:00Z","rank":1,"host":"HOST","stream":"stderr","line":"RuntimeError: CUDA out of memory"}` + "\n",
			"a verdict":       `{"time":"2026-11-23T04:00:00Z","event":"verdict","kind":"gpu-fault","rank":5,"host":"HOST","node":"HOST","pod":"HOST","cordon":"kubectl cordon HOST","evidence":["x"],"advice":[]}` + "\n",
			"a tag":           "[0@HOST] RuntimeError: NCCL error: unhandled system error\n",
			"torch's own":     "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n  host      : HOST\n  rank      : 1 (local_rank: 1)\n  exitcode  : -9 (pid: 7)\n",
			"a line of NCCL":  "HOST:7:8 [1] NCCL WARN Call to connect returned Connection refused\n",
			"Xid of a kernel": "HOST kernel: NVRM: Xid (PCI:0000:02:00): 79, pid=7, GPU has fallen off the bus.\n",
		} {
			text := strings.ReplaceAll(strings.ReplaceAll(log, `"HOST`, `"`+strings.ReplaceAll(bad, `"`, `\"`)), "HOST", strings.ReplaceAll(bad, `"`, `\"`))
			for _, args := range [][]string{{"verdict"}, {"verdict", "--json"}} {
				e := read(t, text, args...)
				for line := range strings.Lines(e.Stdout) {
					is := strings.HasPrefix(line, "do:") || strings.HasPrefix(line, "rank:") || strings.HasPrefix(line, "host:") || strings.HasPrefix(line, "node:")
					if is && strings.Contains(line, bad) {
						t.Errorf("%s: %q of %q", name, line, text)
					}
				}
				if len(args) == 1 {
					continue
				}
				var v struct {
					Host, Node, Pod, Cordon string
					Advice                  []string
				}
				if err := json.Unmarshal([]byte(e.Stdout), &v); err != nil {
					t.Errorf("%s: %v: %s", name, err, e.Stdout)
				}
				if said := strings.Join(append(v.Advice, v.Host, v.Node, v.Pod, v.Cordon), "\n"); strings.Contains(said, bad) {
					t.Errorf("%s: it has %q, of %q", name, said, text)
				}
			}
		}
	}
}
