package identity

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// An incarnation names one life of a container. Every mpiup process in a container
// gets the same name; a container that was restarted, or moved to another machine, gets
// another. By it others tell agents on one node apart, and see that a launcher is a new life of one that
// they knew.
//
//	sha256(boot id, pid namespace, mount namespace, start time of PID 1, name) → 32 hex digits
//	sha256(boot id, network namespace)                                          → the pod's, all containers'
//
// The name (the host's, unless --name says otherwise) tells agents apart that were started
// side by side in one container for a trial on loopback addresses.

// IncarnationOf reads the incarnation of the container whose /proc is root/proc. It leaves what it cannot read (a hidden PID 1)
// out of the hash, so the result is the same for all processes that see the same.
func IncarnationOf(root, name string) string {
	h := sha256.New()
	boot := bootID(root)
	pidNS, _ := os.Readlink(filepath.Join(root, "/proc/self/ns/pid"))
	mntNS, _ := os.Readlink(filepath.Join(root, "/proc/self/ns/mnt"))
	fmt.Fprintf(h, "%s\n%s\n%s\n%s\n%s\n", boot, pidNS, mntNS, startTime(root), name)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// IncarnationOfPod names the pod whose /proc is root/proc. All of its containers share one network namespace. No other pod has it,
// but for those on the host network of one node. It outlives containers.
func IncarnationOfPod(root string) string {
	h := sha256.New()
	netNS, _ := os.Readlink(filepath.Join(root, "/proc/self/ns/net"))
	fmt.Fprintf(h, "%s\n%s\n", bootID(root), netNS)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func bootID(root string) []byte {
	b, _ := os.ReadFile(filepath.Join(root, "/proc/sys/kernel/random/boot_id"))
	return bytes.TrimSpace(b)
}

// MaxNumber bounds the numbers of launchers' incarnations: a life takes one, so no honest number comes near, and one
// above the highest must stay a number.
const MaxNumber = 1 << 53

// NumberClaim is what a launcher signs when its incarnation takes a number: a kind and a text for
// identity.Sign.
func NumberClaim(number uint64, incarnation string) (kind string, text []byte) {
	return "number of a launcher", fmt.Appendf(nil, "%d %s", number, incarnation)
}

// startTime is field 22 of /proc/1/stat, in clock ticks since boot (proc(5)). The command in
// field 2 may hold blanks and parentheses, so fields are counted from its last ")".
func startTime(root string) string {
	b, err := os.ReadFile(filepath.Join(root, "/proc/1/stat"))
	if err != nil {
		return ""
	}
	i := bytes.LastIndexByte(b, ')')
	if i < 0 {
		return ""
	}
	f := strings.Fields(string(b[i+1:]))
	const start = 22 - 3 // the first field after ")" is number 3
	if len(f) <= start {
		return ""
	}
	return f[start]
}
