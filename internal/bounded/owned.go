package bounded

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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
	if !ok || !fi.IsDir() || int(st.Uid) != os.Geteuid() || fi.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s is not a directory that only uid %d may write to: it is %v, of uid %d; remove it", path, os.Geteuid(), fi.Mode(), st.Uid)
	}
	return nil
}

// Programs are the directories of a PATH that only root may change, or what leads to them: whoever runs a program of theirs runs nobody
// else's. Each is named by where its links lead: a link on the way may be somebody's who turns it later. It asks file systems, and only of
// directories of the container's own image (roots): a volume may not answer, unless an image's link leads to one.
func Programs(path string) (list []string) {
	for dir := range strings.SplitSeq(path, ":") {
		if dir = filepath.Clean(dir); isRoots(dir) {
			if dir = onlyRoots(dir); dir != "" {
				list = append(list, dir)
			}
		}
	}
	return list
}

// roots are where images have programs.
var roots = []string{"/bin", "/sbin", "/usr", "/opt"}

func isRoots(dir string) bool {
	return slices.ContainsFunc(roots, func(r string) bool { return dir == r || strings.HasPrefix(dir, r+"/") })
}

// onlyRoots is where the links of a path lead; "": nowhere, or another than root may change that path.
func onlyRoots(path string) string {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	for at := path; ; at = filepath.Dir(at) {
		fi, err := os.Lstat(at)
		if err != nil || !rootOnly(fi) {
			return ""
		}
		if at == "/" {
			return path
		}
	}
}

func rootOnly(fi fs.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && st.Uid == 0 && fi.Mode().Perm()&0o022 == 0
}

// Program is the path of a program in such directories, by where its links lead; "": it is in none, or another than root may change it.
func Program(name string, dirs []string) string {
	for _, dir := range dirs {
		path := onlyRoots(filepath.Join(dir, name))
		if fi, err := os.Stat(path); err == nil && fi.Mode().IsRegular() && fi.Mode().Perm()&0o111 != 0 {
			return path
		}
	}
	return ""
}
