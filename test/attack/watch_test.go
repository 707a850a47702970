package attack

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/need"
)

// A rank that writes what it likes to the page by which it is watched names nobody, ends nothing and costs its agent no memory: bytes by
// chance, a page that says of itself that it is fine and has points of another time, a page that is cut, removed, or a link to somewhere, and what
// it writes to the other rank's.
func TestAWatchedRankLies(t *testing.T) {
	need.File(t, "watch", filepath.Join(filepath.Dir(bin), "libmpiup-watch.so"), "make watch")
	for name, lie := range map[string]string{
		"bytes by chance":      `for i in 1 2 3 4 5 6 7 8; do dd if=/dev/urandom of="$p" bs=12288 count=1 conv=notrunc 2>/dev/null; sleep 0.25; done`,
		"its own head, chance": `for i in 1 2 3 4 5 6 7 8; do dd if=/dev/urandom of="$p" bs=1 seek=12 count=12276 conv=notrunc 2>/dev/null; printf '\001\000\000\000' | dd of="$p" bs=1 seek=16 conv=notrunc 2>/dev/null; sleep 0.2; done`,
		"no page any more":     `: >"$p"; sleep 1; rm "$p"; sleep 1`,
		"a link":               `rm "$p"; ln -s /dev/zero "$p"; sleep 2`,
		"a pipe":               `rm "$p"; mkfifo "$p"; sleep 2`,
		"the other's page": `for q in "${p%?}0" "${p%?}1"; do printf '\001\000\000\000' | dd of="$q" bs=1 seek=16 conv=notrunc 2>/dev/null
			for fd in 3 7 700; do printf "$(printf '\\%03o\\%03o\\000\\000' $((fd % 256)) $((fd / 256)))" | dd of="$q" bs=1 seek=152 conv=notrunc 2>/dev/null; sleep 0.3; done; done; sleep 1`,
	} {
		t.Run(name, func(t *testing.T) {
			// No variable names the page, which lies in shared memory: the last number is the rank's.
			const page = `p=$(ls -d /dev/shm/mpiup_run.watch.*."$MPIUP_RANK") && [ -f "$p" ] || exit 9; `
			r := mpiup(t, "run", "--local", "-n", "2", "--watch-ranks", "--watch-window", "2s", "sh", "-c", page+lie)
			if r.Code != 0 || strings.Contains(r.Stderr, "the others waited") || !strings.Contains(r.Stderr, "was not measured") {
				t.Errorf("%d\n%s", r.Code, r.Stderr)
			}
		})
	}
}
