package iof

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxAttempts bounds the directories that are looked at.
const maxAttempts = 10000

// NextAttempt is where a run may write that must not change what earlier ones wrote below dir. That is dir itself,
// or, if a run's files are there already, dir/attempt-2 and so on, which it makes. (A pod that is tried again has the
// same command line, and often the same volume.)
func NextAttempt(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return dir, nil // New makes it
	case err != nil:
		return "", err
	}
	taken := false
	for _, e := range entries {
		taken = taken || strings.HasPrefix(e.Name(), "rank.") || strings.HasPrefix(e.Name(), "job.")
	}
	if !taken {
		return dir, nil
	}
	for n := 2; n <= maxAttempts; n++ {
		next := filepath.Join(dir, fmt.Sprintf("attempt-%d", n))
		if err := os.Mkdir(next, 0o777); !errors.Is(err, fs.ErrExist) { // its maker has it, also beside others
			return next, err
		}
	}
	return "", fmt.Errorf("%s has %d attempts already: name another directory", dir, maxAttempts)
}
