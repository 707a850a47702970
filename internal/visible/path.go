package visible

import (
	"path/filepath"
	"strings"
)

// Path is a file's name as a shell takes it for one word, and no command for an option.
func Path(file string) string {
	if file = filepath.Clean(file); strings.HasPrefix(file, "-") {
		file = "./" + file
	}
	if strings.Trim(file, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-:@+") == "" {
		return file
	}
	return "'" + strings.ReplaceAll(Line(file), "'", `'\''`) + "'"
}
