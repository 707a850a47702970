package bounded

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// OwnedDir, Programs and Program tell directories that only this user may write to from those that somebody else made first, below a
// /tmp that all share.

// OwnedDir is an error where a path is no directory of this process's user, or others may write to it. Links are not followed.
func OwnedDir(path string) error {
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

// Programs are those directories of a PATH that only root may change, and what leads to them: whoever runs a program of theirs runs nobody
// else's. Links are followed, and where they lead to counts as well. It asks file systems, and only directories of the container's own image
// are asked (roots): a volume may not answer.
func Programs(path string) (list []string) {
	for dir := range strings.SplitSeq(path, ":") {
		if isRoots(dir) && onlyRoots(dir) {
			list = append(list, dir)
		}
	}
	return list
}

// roots are where images have programs.
var roots = []string{"/bin", "/sbin", "/usr", "/opt"}

func isRoots(dir string) bool {
	for _, r := range roots {
		if dir == r || strings.HasPrefix(dir, r+"/") {
			return filepath.Clean(dir) == dir
		}
	}
	return false
}

// onlyRoots says that no user but root can change a path, by its name or by what that leads to.
func onlyRoots(path string) bool {
	led, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false
	}
	for _, way := range []string{path, led} {
		for {
			fi, err := os.Lstat(way)
			if err != nil || !rootOnly(fi) {
				return false
			}
			if way == "/" {
				break
			}
			way = filepath.Dir(way)
		}
	}
	return true
}

func rootOnly(fi fs.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && st.Uid == 0 && (fi.Mode().Perm()&0o022 == 0 || fi.Mode()&fs.ModeSymlink != 0)
}

// Program is the path of a program in such directories; "": it is in none, or another than root may change it.
func Program(name string, dirs []string) string {
	for _, dir := range dirs {
		path := filepath.Join(dir, name)
		if fi, err := os.Stat(path); err == nil && fi.Mode().IsRegular() && fi.Mode().Perm()&0o111 != 0 && onlyRoots(path) {
			return path
		}
	}
	return ""
}
