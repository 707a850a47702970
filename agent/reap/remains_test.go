package reap

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/agent/reap/proctree"
)

// A chain of processes of which each starts the next one and ends is never overlooked by a look that says that it is sure:
// not while the last of it has not written its file.
func TestWhoForksAndEndsIsNotOverlooked(t *testing.T) {
	dir := t.TempDir()
	chain, over := filepath.Join(dir, "chain"), filepath.Join(dir, "over")
	script := fmt.Sprintf("#!/bin/sh\nif [ $1 -gt 0 ]; then sh %s $(($1-1)) & exit 0; fi\n: > %s\n", chain, over)
	if err := os.WriteFile(chain, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	s := supervise(t)
	wait(t, start(t, s, inSession(sh("sh "+chain+" 200 & exit 0"), "chain")))

	var looks, found, unsure int
	for {
		left, sure := s.Remains("chain", func([]byte) string { return "" })
		if _, err := os.Stat(over); err == nil {
			break
		}
		looks++
		if len(left) > 0 {
			found++
		} else if !sure {
			unsure++
		} else {
			t.Fatalf("look %d found nobody and says that it is sure, while the chain goes on", looks)
		}
	}
	if found == 0 {
		t.Errorf("of %d looks none found anybody", looks)
	}
	t.Logf("%d looks: %d found one, %d knew that they may have missed one", looks, found, unsure)
	s.StopSession("chain", unix.SIGKILL, 0)
}

// A look is sure only where everybody who was listed could be looked at.
func TestALookSaysThatOneHasEndedMeanwhile(t *testing.T) {
	root, _ := looksAt(t)
	s := New(Config{Log: quiet()})
	s.proc = proctree.Proc{Root: root}
	look := func() bool {
		_, sure := s.Remains("any", func([]byte) string { return "" })
		return sure
	}
	if !look() {
		t.Error("nobody ended, and the look is not sure")
	}
	if err := os.Mkdir(filepath.Join(root, "9"), 0o700); err != nil { // as if it ended after it was listed: it has no stat
		t.Fatal(err)
	}
	if look() {
		t.Error("one ended between the list and the look, and the look is sure")
	}
}
