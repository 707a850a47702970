// Package owned tells directories that only this user may write to from those that somebody else made first, below a
// /tmp that all share.
package owned

import (
	"fmt"
	"os"
	"syscall"
)

// Dir is an error where a path is no directory of this process's user, or others may write to it. Links are not followed.
func Dir(path string) error {
	fi, err := os.Lstat(path)
	if err != nil {
		return err
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !fi.IsDir() || !ok || int(st.Uid) != os.Geteuid() || fi.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s is not a directory that only uid %d may write to", path, os.Geteuid())
	}
	return nil
}
