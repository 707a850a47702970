package main

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	testlab "github.com/mpiup/mpiup/test/lab"
)

// Up to so much the initialisation of a package may allocate without being asked why. What it allocates is the same on every machine, as the time it
// takes is not: 64 allocations take some 20 µs, and each page of what it makes another one.
const mostAllocations, mostBytes = 64, 8 << 10

// costly are the packages that allocate more before main begins, in every command of mpiup. Each has a reason to stay; a new one needs a better one
// than being convenient. Packages of our own make their tables and patterns at their first use (internal/pattern, sync.OnceValue).
var costly = map[string]string{
	"github.com/mpiup/mpiup/internal/api/v1":       "the messages: the protobuf library wants to know them all",
	"github.com/mpiup/mpiup/internal/api/codec":    "one table, laid out by the compiler but for its hashes",
	"github.com/mpiup/mpiup/launcher/verdict":      "closures of patterns that are not compiled yet",
	"github.com/mpiup/mpiup/launcher/verdict/logs": "closures of patterns that are not compiled yet",
	"github.com/mpiup/mpiup/pmi/pmix/bfrops":       "closures",
	"google.golang.org/grpc":                       "parses a service configuration",
	"google.golang.org/grpc/internal/binarylog":    "patterns of grpc's, for logs that we do not write",
	"google.golang.org/protobuf/...":               "messages of its own, and a pattern of protojson's, which grpc prints messages with",
	"encoding/gob":                                 "from net/rpc",
	"net/rpc":                                      "from msgpack's codec, which memberlist speaks",
	"github.com/hashicorp/go-sockaddr":             "from memberlist",
	"github.com/miekg/dns":                         "from memberlist",
	"github.com/prometheus/...":                    "the library that both pages of metrics are made with; procfs, for its own collector of processes, is half of it",
	"runtime/metrics":                              "from Prometheus' collector of Go's own metrics",
	"golang.org/x/crypto/ssh":                      "reads keys in OpenSSH's format",
	"encoding/xml":                                 "reads nvidia-smi's answers, and writes pictures",
	"unicode":                                      "of Go itself",
}

var initLine = regexp.MustCompile(`(?m)^init (\S+) @.* clock, (\d+) bytes, (\d+) allocs$`)

// initialised is what a process of mpiup initialises, in this order, with what it allocates (runtime: GODEBUG=inittrace).
func initialised(t *testing.T, cmd *exec.Cmd) (names []string, cost map[string][2]int) {
	t.Helper()
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("%q: %v\n%s", cmd.Args, err, said.String())
	}
	cost = map[string][2]int{}
	for _, m := range initLine.FindAllStringSubmatch(said.String(), -1) {
		bytes, _ := strconv.Atoi(m[2])
		allocs, _ := strconv.Atoi(m[3])
		names, cost[m[1]] = append(names, m[1]), [2]int{bytes, allocs}
	}
	if len(names) < 20 {
		t.Fatalf("%q: %q", cmd.Args, said.String())
	}
	return names, cost
}

// program is mpiup, as it is or built here.
func program(t *testing.T) string {
	t.Helper()
	bin, err := testlab.Binary(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// Nothing is initialised before it is needed, but for what stands in the list.
func TestWhatEveryCommandInitialises(t *testing.T) {
	t.Parallel()
	names, cost := initialised(t, exec.CommandContext(t.Context(), program(t), "version"))
	seen := map[string]bool{}
	for _, name := range names {
		if c := cost[name]; c[1] <= mostAllocations && c[0] <= mostBytes {
			continue
		}
		entry := name
		for _, messages := range []string{"google.golang.org/protobuf/", "google.golang.org/genproto/", "google.golang.org/grpc/binarylog/"} {
			if strings.HasPrefix(name, messages) {
				entry = "google.golang.org/protobuf/..." // whichever of them is the first to fill a table of all messages
			}
		}
		if strings.HasPrefix(name, "github.com/prometheus/") {
			entry = "github.com/prometheus/..."
		}
		if seen[entry] = true; costly[entry] == "" {
			t.Errorf("%s is initialised before main, in every command, with %d allocations, %d bytes: make its tables at their first use, or leave it out",
				name, cost[name][1], cost[name][0])
		}
	}
	for entry := range costly {
		if !seen[entry] {
			t.Errorf("%s costs nothing any more: take it off the list", entry)
		}
	}
}

// A guard is one before any library is initialised that it has no use for.
func TestWhatAGuardInitialises(t *testing.T) {
	t.Parallel()
	alive, dead, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	dead.Close() // its agent has ended
	ledger, err := os.Create(t.TempDir() + "/ledger")
	if err != nil {
		t.Fatal(err)
	}
	defer ledger.Close()
	cmd := exec.CommandContext(t.Context(), program(t))
	cmd.Args, cmd.ExtraFiles = []string{"mpiup-guard"}, []*os.File{alive, ledger}
	names, _ := initialised(t, cmd)
	for _, late := range []string{"google.golang.org/grpc", "golang.org/x/crypto/ssh", "github.com/miekg/dns", "github.com/hashicorp/memberlist", "github.com/spf13/cobra",
		"github.com/prometheus/client_golang/prometheus", "github.com/prometheus/procfs",
		"github.com/mpiup/mpiup/launcher/verdict/logs"} {
		if slices.Contains(names, late) {
			t.Errorf("a guard initialises %s", late)
		}
	}
}
