package visible

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Path is a file's name as a shell takes it for one word, and no command for an option. A name with bytes that do not show
// is in bash's own quotes ($'caf\xe9'), which name them.
func Path(file string) string {
	if file = filepath.Clean(file); strings.HasPrefix(file, "-") {
		file = "./" + file
	}
	if strings.Trim(file, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-:@+") == "" {
		return file
	}
	if Line(file) == file {
		return "'" + strings.ReplaceAll(file, "'", `'\''`) + "'"
	}

	var b strings.Builder
	b.WriteString("$'")
	for rest := file; rest != ""; {
		c, n := utf8.DecodeRuneInString(rest)
		switch shows := strconv.IsPrint(c) && (c != utf8.RuneError || n > 1); {
		case c == '\'' || c == '\\':
			b.WriteByte('\\')
			b.WriteString(rest[:n])
		case shows:
			b.WriteString(rest[:n])
		default:
			for _, one := range []byte(rest[:n]) {
				fmt.Fprintf(&b, `\x%02x`, one)
			}
		}
		rest = rest[n:]
	}
	b.WriteByte('\'')
	return b.String()
}
