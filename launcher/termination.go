package launcher

import (
	"fmt"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/mpiup/mpiup/internal/visible"
)

// maxTermination is what the MPI Operator and kubectl describe show of a termination message.
const maxTermination = 1024

// writeTermination leaves the verdict where Kubernetes looks for it (the container's
// terminationMessagePath), the most useful first. The kubelet makes the file; where there is
// none, nothing is written. Errors do not matter: stderr has said it all.
func writeTermination(path string, code int, lines, tail []string) {
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = f.WriteString(termination(code, lines, tail))
}

func termination(code int, lines, tail []string) string {
	text := strings.Join(lines, "\n") + fmt.Sprintf("\nexit code %d\n", code)
	if len(tail) > 0 {
		text += "its last lines:\n" + strings.Join(tail, "\n") + "\n"
	}
	text = visible.Text(text)
	if len(text) <= maxTermination {
		return text
	}
	cut := maxTermination
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut]
}
