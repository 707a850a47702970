package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/need"
	"github.com/mpiup/mpiup/test/netns"
)

// benchmarks is a directory with programs of OSU's names.
func (l *lab) benchmarks(t *testing.T, mpicc string) string {
	t.Helper()
	exe, err := l.compiled(mpicc, "osu")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(l.dir, "osu-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"osu_bw", "osu_latency", "osu_allreduce"} {
		if err := os.Symlink(exe, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// fabricReport is what the tests read of doctor's JSON.
type fabricReport struct {
	Verdict string
	Rows    []struct {
		Check, Verdict, Text string
		Hosts                []string
	}
	Fabric struct {
		Programs map[string]string
		Tests    []struct {
			Test   string
			Shape  string
			Median float64
			Values []struct {
				From, To, Error string
				Value           float64
			}
		}
	}
}

// tests is the tests' names, how many values they have and their medians.
func (r *fabricReport) tests() string {
	var list []string
	for _, test := range r.Fabric.Tests {
		list = append(list, fmt.Sprintf("%s %d %g", test.Test, len(test.Values), test.Median))
	}
	return strings.Join(list, ", ")
}

// warnings is the rows of benchmarks that did not pass.
func (r *fabricReport) warnings() (list []string) {
	for _, row := range r.Rows {
		if strings.HasPrefix(row.Check, "fabric") && row.Verdict != "pass" {
			list = append(list, fmt.Sprintf("%s %s: %s", row.Verdict, row.Check, row.Text))
		}
	}
	return list
}

// doctorOf is doctor with benchmarks of a directory.
func (l *lab) doctorOf(t *testing.T, dir string, args ...string) (fabricReport, result) {
	t.Helper()
	r := l.mpiup(t, append([]string{"doctor", "--key", l.key, "--fabric", "--fabric-path", dir, "--json", "-N", "1"}, args...)...)
	var report fabricReport
	if err := json.Unmarshal([]byte(r.Stdout), &report); err != nil {
		t.Fatalf("%v in\n%s%s", err, r.Stdout, r.Stderr)
	}
	return report, r
}

// TestDoctorFabric runs benchmarks between three hosts and on all of them, as jobs of MPI; then with a slow host and a
// slow way, against what the first run has kept.
func TestDoctorFabric(t *testing.T) {
	t.Parallel()
	l := hosted(t).apart(t, netns.Config{Hosts: []string{"w0", "w1", "w2"}})
	need.Program(t, "mpicc.openmpi", "libopenmpi-dev")
	dir := l.benchmarks(t, "mpicc.openmpi")
	for _, h := range l.cluster.Workers() {
		l.agent(t, h, container{})
	}
	file := filepath.Join(dir, "baseline.json")
	report, r := l.doctorOf(t, dir, "--host", "w0,w1,w2", "--baseline", file)
	want := "osu_latency 8 B 3 10, osu_bw 1 MiB 6 1000, osu_allreduce 8 B 1 10, osu_allreduce 1 MiB 1 10"
	if got := report.tests(); got != want || r.Code != 0 || report.warnings() != nil {
		t.Fatalf("%d: %s, not %s\n%s", r.Code, got, want, r.Stdout)
	}

	write(t, filepath.Join(dir, "slow"), "1.3 w0>w1")
	write(t, filepath.Join(dir, "old"), "")
	report, r = l.doctorOf(t, dir, "--host", "w0,w1,w2", "--baseline", file, "--strict")
	const than = ", more than 10 % worse than "
	for _, line := range []string{
		"warn fabric: osu_bw 1 MiB: w0 to w1 has 769 MB/s" + than + "the median 1.0 GB/s",
		"warn fabric: osu_bw 1 MiB: w0 to w1 has 769 MB/s" + than + "its baseline 1.0 GB/s",
		"warn fabric: osu_latency 8 B: w0 to w1 has 13 µs" + than + "its baseline 10 µs",
	} {
		if !slices.Contains(report.warnings(), line) {
			t.Errorf("nowhere stands %s", line)
		}
	}
	if r.Code != 1 || t.Failed() {
		t.Errorf("ended with %d:\n%s\n%s", r.Code, strings.Join(report.warnings(), "\n"), r.Stderr)
	}

	// Fewer hosts than the baseline has: medians are compared.
	write(t, filepath.Join(dir, "slow"), "1.3 w2")
	report, _ = l.doctorOf(t, dir, "--host", "w2,w0", "--baseline", file)
	for _, line := range []string{
		"warn fabric: osu_bw 1 MiB: the median is 769 MB/s" + than + "the baseline's 1.0 GB/s",
		"warn fabric baseline: " + file + " has osu_allreduce 8 B, 3 ranks on 3 hosts, which was not measured now",
	} {
		if !slices.Contains(report.warnings(), line) {
			t.Errorf("of two hosts: nowhere stands %s in\n%s", line, strings.Join(report.warnings(), "\n"))
		}
	}
}

// TestDoctorFabricMPICH: the image's MPI may be another one. It is MPICH 5, for Debian's now and then hangs in MPI_Finalize on two hosts.
func TestDoctorFabricMPICH(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	report, r := l.doctorOf(t, l.benchmarks(t, filepath.Join(l.wheels(t), "mpicc")), "--host", "w0,w1")
	want := "osu_latency 8 B 1 10, osu_bw 1 MiB 2 1000, osu_allreduce 8 B 1 10, osu_allreduce 1 MiB 1 10"
	if got := report.tests(); got != want || r.Code != 0 {
		t.Fatalf("%d: %s, not %s\n%s", r.Code, got, want, r.Stdout)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestDoctorFabricRefuses what cannot be: programs that nobody has, that are not everywhere or that fail, baselines that
// are none, and agents that do not start ranks.
func TestDoctorFabricRefuses(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	need.Program(t, "mpicc.openmpi", "libopenmpi-dev")
	l = l.apart(t, netns.Config{Hosts: []string{"w0", "w1", "norun"}})
	dir := l.benchmarks(t, "mpicc.openmpi")
	for _, h := range []string{"w0", "w1"} {
		l.agent(t, h, container{})
	}
	l.agent(t, "norun", container{flags: []string{"--allow", "exec"}})
	doctor := func(args ...string) result {
		return l.mpiup(t, append([]string{"doctor", "--key", l.key, "--fabric"}, args...)...)
	}
	bad := filepath.Join(dir, "bad")
	write(t, bad, `{"mpiup_fabric_baseline":1,"hosts":["a"],"tests":[{"test":"osu_bw 1 MiB","unit":"MB/s","median":1,"ways":[{"from":7,"to":0,"value":1}]}]}`)
	doctor("--host", "w0,w1", "--baseline", bad).Fails(t, 240, "--baseline "+bad, "from 7 to 0")
	doctor("--host", "w0,w1", "--baseline", dir).Fails(t, 240, "not a regular file")

	r := doctor("--host", "w0,w1", "--fabric-path", "/nowhere", "--strict")
	none := r.Code == 1 && strings.Contains(r.Stdout, "none of ib_write_bw, osu_latency, osu_bw, osu_allreduce, all_reduce_perf is in the image") &&
		strings.Contains(r.Stdout, "apt-get install perftest")
	if !none && !strings.Contains(r.Stdout, "ib_write_bw was not run: no host has a usable RDMA device") { // where perftest is installed
		t.Errorf("without programs: %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	r = doctor("--host", "w0,norun", "--fabric-path", dir)
	if !strings.Contains(r.Stdout, "the agent's policy refuses run to launchers (--allow exec)") || r.Code == 0 {
		t.Errorf("an agent that does not run ranks: %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	broken := filepath.Join(dir, "broken")
	if err := os.Mkdir(broken, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(broken, "osu_bw"), []byte("#!/bin/sh\necho cannot measure >&2\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	r = doctor("--host", "w0,w1", "--fabric-path", broken)
	if r.Code != 1 || !regexp.MustCompile(`(?m)^FAIL +fabric: osu_bw 1 MiB +all 2 +w\d to w\d: .*rank \d on w\d exited with code 3; its last line: "cannot measure"`).MatchString(r.Stdout) {
		t.Errorf("a program that fails: %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
}
