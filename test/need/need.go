// Package need says what a test cannot run without. On a laptop a missing thing skips the
// test; where $MPIUP_TEST_REQUIRE lists it ("root,netns,mpich", or "all"), as CI does, it fails.
package need

import (
	"os"
	"os/exec"
	"strings"
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
