package peers

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/hang"
)

// The table of mpiup ps shows what ranks do. What agents tell is taken as it comes; whoever prints it makes it visible.
//
//	rows of each host ──compare──▶ []psRow ──tableOf──▶ text

// psRow is one rank.
type psRow struct {
	Launcher  string  `json:"launcher"`
	Job       string  `json:"job"`
	Number    uint32  `json:"job_number"` // 0: the run's first job; those that ranks spawned count up
	Rank      uint32  `json:"rank"`
	Host      string  `json:"host"`
	PID       int32   `json:"pid"`
	Main      int32   `json:"main_pid"` // of the process that does the work
	Program   string  `json:"program"`
	State     string  `json:"state"`
	CPU       float64 `json:"cpu_percent"`
	RSS       uint64  `json:"rss_bytes"`
	Processes uint32  `json:"processes"`
	GPUMemory uint64  `json:"gpu_memory_bytes,omitempty"`
	Silent    float64 `json:"silent_seconds"` // since its last output; without any, since its start
	Wrote     bool    `json:"wrote"`
	Phase     string  `json:"mpi"`
	Syscall   string  `json:"syscall,omitempty"`
	Wchan     string  `json:"wchan,omitempty"`
	Mount     string  `json:"mount,omitempty"`    // the file system whose answer it waits for
	Restarts  uint32  `json:"restarts,omitempty"` // how often its job has been started again
}

// states are the kernel's letters in words (proc_pid_stat(5)).
var states = map[string]string{"R": "running", "S": "sleeping", "D": "in I/O", "T": "stopped", "t": "traced", "Z": "zombie", "X": "dead", "I": "idle"}

// stateName is a letter of the kernel in words; "-" for one that it does not have.
func stateName(letter string) string { return cmp.Or(states[letter], "-") }

// compare is the order of launchers, jobs and ranks.
func (r psRow) compare(o psRow) int {
	return cmp.Or(cmp.Compare(r.Launcher, o.Launcher), cmp.Compare(r.Job, o.Job), cmp.Compare(r.Number, o.Number),
		cmp.Compare(r.Rank, o.Rank), cmp.Compare(r.Host, o.Host))
}

// tableOf is rows for a person: a heading for each job, and a line a rank. Columns that nobody fills are left out. On a screen, columns wide, each
// rank has its sparkline.
func tableOf(rows []psRow, on *screen, columns int) string {
	if len(rows) == 0 {
		return "no ranks run\n"
	}
	var b strings.Builder
	gpus := slices.ContainsFunc(rows, func(r psRow) bool { return r.GPUMemory > 0 })
	for len(rows) > 0 {
		first, n := rows[0], 0
		for n < len(rows) && rows[n].Launcher == first.Launcher && rows[n].Job == first.Job && rows[n].Number == first.Number {
			n++
		}
		fmt.Fprintf(&b, "job %s%s, by %s%s\n", visible.Line(first.Job), hang.Spawned(first.Number), visible.Line(first.Launcher), again(first.Restarts))
		if on == nil {
			table(&b, rows[:n], gpus, nil)
		} else {
			on.table(&b, rows[:n], gpus, columns)
		}
		rows = rows[n:]
	}
	return b.String()
}

func again(restarts uint32) string {
	if restarts == 0 {
		return ""
	}
	return ", started again " + visible.Count(int(restarts), "time")
}

// table writes the lines of one job; spark is what stands beside a rank's CPU, nil: nothing.
func table(b *strings.Builder, rows []psRow, gpus bool, spark func(psRow) string) {
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	head := "RANK\tHOST\tPID\tPROGRAM\tSTATE\tCPU%\t"
	if spark != nil {
		head += "CPU OF LATE\t"
	}
	head += "RSS\t"
	if gpus {
		head += "GPU\t"
	}
	fmt.Fprintln(t, head+"OUTPUT\tMPI\tWAITS IN")
	for _, r := range rows {
		fmt.Fprintf(t, "%d\t%s\t%d\t%s\t%s\t%.0f\t", r.Rank, visible.Line(r.Host), r.Main, visible.Line(r.Program), r.State, r.CPU)
		if spark != nil {
			fmt.Fprintf(t, "%s\t", spark(r))
		}
		fmt.Fprintf(t, "%s\t", bytesOf(r.RSS))
		if gpus {
			fmt.Fprintf(t, "%s\t", bytesOf(r.GPUMemory))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", r.silence(), r.Phase, visible.Line(r.Waits()))
	}
	t.Flush()
}

// silence is how long ago the last output came.
func (r psRow) silence() string {
	d := time.Duration(r.Silent * float64(time.Second)).Round(time.Second)
	if !r.Wrote {
		return "none in " + d.String()
	}
	return d.String() + " ago"
}

// Waits is where the rank waits, as the kernel has it: a system call says most, but for a process that I/O holds.
func (r psRow) Waits() string {
	list := []string{r.Syscall, r.Wchan}
	if r.State == states["D"] {
		slices.Reverse(list)
	}
	where := cmp.Or(list[0], list[1], "-")
	if r.Mount != "" {
		where += " on " + r.Mount
	}
	return where
}

// bytesOf is a size for a person: "-" where it is not known.
func bytesOf(n uint64) string {
	if n == 0 {
		return "-"
	}
	const units = "KMGTPE"
	if n < 1024 {
		return strconv.FormatUint(n, 10)
	}
	v, i := float64(n)/1024, 0
	for v >= 999.5 && i < len(units)-1 {
		v /= 1024
		i++
	}
	if v < 9.95 {
		return fmt.Sprintf("%.1f%c", v, units[i])
	}
	return fmt.Sprintf("%.0f%c", v, units[i])
}
