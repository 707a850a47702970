package resolve

import (
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/podfiles"
)

// maxFile bounds what is read of /etc/hosts and /etc/resolv.conf, in bytes.
const maxFile = 4 << 20

// watched is a file that is read again when its identity, size or time of change has changed.
// kubelet writes /etc/hosts in place; ConfigMaps and container runtimes replace files.
type watched struct {
	mtime time.Time
	size  int64
	inode uint64
}

// read gives the file's text when it differs from the last read. A file that is missing or
// cannot be read is an empty one.
func (w *watched) read(path string) (text []byte, changed bool) {
	fi, err := os.Stat(path)
	if err != nil {
		changed = *w != watched{}
		*w = watched{}
		return nil, changed
	}
	now := watched{mtime: fi.ModTime(), size: fi.Size()}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		now.inode = st.Ino
	}
	if now == *w {
		return nil, false
	}
	*w = now
	text, err = bounded.Regular(path, maxFile)
	if err != nil {
		return nil, true
	}
	return text, true
}

// hostsFile is /etc/hosts.
type hostsFile struct {
	path string

	mu     sync.Mutex
	state  watched                 // guarded by mu
	byName map[string][]netip.Addr // guarded by mu
}

// lookup gives the addresses listed for name, in the order of the file, or nil.
func (h *hostsFile) lookup(name string) []netip.Addr {
	h.mu.Lock()
	defer h.mu.Unlock()
	if text, changed := h.state.read(h.path); changed {
		h.byName = parseHosts(text)
	}
	return h.byName[key(name)]
}

// parseHosts is the addresses of each name of a hosts file.
func parseHosts(text []byte) map[string][]netip.Addr {
	byName := map[string][]netip.Addr{}
	for addr, names := range podfiles.Hosts(string(text)) {
		for _, name := range names {
			byName[key(name)] = append(byName[key(name)], addr.Unmap())
		}
	}
	return byName
}
