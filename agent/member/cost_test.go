package member

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/need"
)

// What one of n members costs while nothing happens, each in a process of its own, with TLS:
// MPIUP_MEMBER_COST=64 go test -run IdleCost -v ./agent/member. The test binary is not the
// agent, so memory is given beside that of a member on its own.
func TestIdleCost(t *testing.T) {
	n, err := strconv.Atoi(need.Asked(t, "MPIUP_MEMBER_COST", "64"))
	if err != nil || n < 2 {
		t.Fatalf("MPIUP_MEMBER_COST is a number of members, at least 2: %v", err)
	}
	addr := func(i int) string { return fmt.Sprintf("127.0.74.%d:17811", i) }
	lone := startChild(t, "lone", "127.0.75.1:17811").Process.Pid
	first := startReal(t, "m1", addr(1))
	var pids []int
	for i := 2; i <= n; i++ {
		pids = append(pids, startChild(t, fmt.Sprint("m", i), addr(i), addr(1), addr(1+i/2)).Process.Pid)
	}
	took := first.await(t, 2*time.Minute, func(v *View) bool { return count(v, Alive) == n })
	t.Logf("%d members know each other after %v", n, took)
	lost := make(chan bool, 1)
	go func() {
		lost <- !first.holds(2*time.Minute, func(v *View) bool { return len(v.Members) == n })
	}()
	time.Sleep(time.Minute) // let pairs meet
	from := map[int]time.Duration{lone: cpu(t, lone)}
	for _, p := range pids {
		from[p] = cpu(t, p)
	}
	time.Sleep(time.Minute)
	var all, most time.Duration
	var pss, private int
	for _, p := range pids {
		d := cpu(t, p) - from[p]
		all, most = all+d, max(most, d)
		a, b := memory(t, p)
		pss, private = pss+a, private+b
	}
	a, b := memory(t, lone)
	k := len(pids)
	t.Logf("a member: %.2f %% of a core, at most %.2f %%; PSS %d KB, private %d KB, mean of %d", 100*all.Minutes()/float64(k), 100*most.Minutes(), pss/k, private/k, k)
	t.Logf("alone: %.2f %% of a core; PSS %d KB, private %d KB", 100*(cpu(t, lone)-from[lone]).Minutes(), a, b)
	if <-lost {
		t.Error("lost a member meanwhile")
	}
}

// cpu is the processor time a process has used (/proc/PID/stat, fields 14 and 15, of 10 ms).
func cpu(t *testing.T, pid int) time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// memory gives PSS and private memory in KB (/proc/PID/smaps_rollup).
func memory(t *testing.T, pid int) (pss, private int) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		kb, _ := strconv.Atoi(f[1])
		switch f[0] {
		case "Pss:":
			pss = kb
		case "Private_Clean:", "Private_Dirty:":
			private += kb
		}
	}
	return pss, private
}
