// Package need says what a test cannot run without. On a laptop a missing thing skips the
// test; where $MPIUP_TEST_REQUIRE lists it ("root,netns,mpich", or "all"), as CI does, it fails.
// Nothing else in this repository skips a test, and .ci/run lists every name that a test asks for:
// internal/archtest holds both.
package need

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// Root is being uid 0.
func Root(t testing.TB) {
	t.Helper()
	check(t, "root", os.Geteuid() == 0, "run as root")
}

// Netns is being able to make network namespaces.
func Netns(t testing.TB) {
	t.Helper()
	Root(t)
	_, err := exec.LookPath("ip")
	check(t, "netns", err == nil, "install iproute2")
}

// MPICH is Debian's mpich and libmpich-dev (mpicc.mpich).
func MPICH(t testing.TB) {
	t.Helper()
	_, err := exec.LookPath("mpicc.mpich")
	check(t, "mpich", err == nil, "install mpich and libmpich-dev")
}

// Program is a program on PATH.
func Program(t testing.TB, name, pkg string) {
	t.Helper()
	_, err := exec.LookPath(name)
	check(t, name, err == nil, "install "+pkg)
}

// File is a file that some set-up step makes; what names it in $MPIUP_TEST_REQUIRE.
func File(t testing.TB, what, path, how string) {
	t.Helper()
	_, err := os.Stat(path)
	check(t, what, err == nil, how)
}

// Core is that a process that dies may leave its core in its working directory.
func Core(t testing.TB) {
	t.Helper()
	pattern, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	var lim syscall.Rlimit
	err = errors.Join(err, syscall.Getrlimit(syscall.RLIMIT_CORE, &lim))
	here := err == nil && len(pattern) > 0 && pattern[0] != '|' && pattern[0] != '/' && lim.Max > 0
	check(t, "core", here, "have /proc/sys/kernel/core_pattern name a file without a directory, and ulimit -Hc above 0")
}

// Done is what a test had to do first and could not always: a mount, a cgroup, a core file. err is
// what came of it, nil where it is done.
func Done(t testing.TB, what string, err error, how string) {
	t.Helper()
	if err != nil {
		how += ": " + err.Error()
	}
	check(t, what, err == nil, how)
}

// Asked is for a measurement or a soak, which runs only where somebody asks for it in a variable; it
// returns the variable's value. CI asks for none of these.
func Asked(t testing.TB, variable, value string) string {
	t.Helper()
	v := os.Getenv(variable)
	if v == "" {
		t.Skipf("runs with %s=%s", variable, value)
	}
	return v
}

// Time is for a test of many seconds, which go test -short leaves out.
func Time(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes long")
	}
}

// NoRace is for a test that the race detector itself breaks, for the reason that why names. CI runs its
// package once more without.
func NoRace(t testing.TB, why string) {
	t.Helper()
	if raced {
		t.Skip(why + "; run without -race")
	}
}

func check(t testing.TB, what string, ok bool, how string) {
	t.Helper()
	if ok {
		return
	}
	for _, r := range strings.Split(os.Getenv("MPIUP_TEST_REQUIRE"), ",") {
		if r == what || r == "all" {
			t.Fatalf("%s is required here and missing: %s", what, how)
		}
	}
	t.Skipf("%s is missing: %s", what, how)
}
