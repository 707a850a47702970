package host

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/outfile"
)

// Record is what a running agent leaves in its container's run directory, for `mpiup agent
// --check` and for commands in the same container: which agent is ours, and where it listens.
type Record struct {
	Incarnation string `json:"incarnation"`
	Address     string `json:"address"` // to reach it from this container
	PID         int    `json:"pid"`
}

// recordName is the file in Config.RunDir.
const recordName = "agent.json"

// RunDir is the directory for an uid's records: below $TMPDIR, else /tmp.
func RunDir(tmp string, uid int) string {
	return filepath.Join(cmp.Or(tmp, "/tmp"), fmt.Sprintf("mpiup-%d", uid))
}

// Announce writes the Record of an agent whose port is bound, and returns what removes it. A container without a writable
// directory has none; --check then looks for its incarnation on the candidate ports.
func (h *Host) Announce(incarnation string, bound netip.AddrPort) (remove func()) {
	if h.cfg.RunDir == "" {
		return func() {}
	}
	ip := bound.Addr().Unmap()
	if ip.IsUnspecified() {
		ip = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	path := filepath.Join(h.cfg.RunDir, recordName)
	r := Record{Incarnation: incarnation, Address: netip.AddrPortFrom(ip, bound.Port()).String(), PID: os.Getpid()}
	if err := h.atBase(func() error { return writeRecord(h.cfg.RunDir, r) }); err != nil {
		h.cfg.Log.Info("no record of this agent; mpiup agent --check will search its ports", "file", path, "cause", err)
		return func() {}
	}
	return func() {
		_ = h.atBase(func() error { // what does not answer stays, with an incarnation that is no more
			if cur, err := ReadRecord(h.cfg.RunDir); err == nil && cur == r {
				os.Remove(path)
			}
			return nil
		})
	}
}

func writeRecord(dir string, r Record) error {
	d, err := outfile.Private(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	b, _ := json.Marshal(r) // of texts and a number: it does not fail
	return d.Replace(recordName, append(b, '\n'), 0o600)
}

// MakeRunDir makes a directory below RunDir's, which nobody else may write to.
func MakeRunDir(dir string) error {
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := outfile.MakeAll(d, 0o700); err != nil {
			return err
		}
		if err := bounded.OwnedDir(d); err != nil {
			return err
		}
	}
	return nil
}

// ReadRecord reads what the agent of this container left in dir.
func ReadRecord(dir string) (Record, error) {
	var r Record
	if err := bounded.OwnedDir(dir); err != nil {
		return r, err
	}
	b, err := bounded.Regular(filepath.Join(dir, recordName), 4096)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("%s in %s: %w", recordName, dir, err)
	}
	if _, err := netip.ParseAddrPort(r.Address); err != nil {
		return r, fmt.Errorf("%s in %s: %w", recordName, dir, err)
	}
	return r, nil
}
