package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/secret"
	"github.com/mpiup/mpiup/internal/visible"
)

// maxTermination is what the kubelet keeps of a container's termination message.
const maxTermination = 4096

// Termination is how a run has ended as Kubernetes shows it of a pod: sentences, the code, and the guilty rank's first and last lines. Secrets are
// masked.
func Termination(code int, lines, first, tail []string) string {
	var b strings.Builder
	write := func(list ...string) {
		for _, l := range secret.MaskLines(list) {
			b.WriteString(visible.Line(l) + "\n")
		}
	}
	write(append(slices.Clone(lines), fmt.Sprint("exit code ", code))...)
	if len(first) > 0 {
		write(append([]string{"its first lines:"}, first...)...)
	}
	if tail = slices.DeleteFunc(slices.Clone(tail), func(l string) bool { return slices.Contains(first, l) }); len(tail) > 0 {
		write(append([]string{"its last lines:"}, tail...)...)
	}
	text := b.String()
	if len(text) <= maxTermination {
		return text
	}
	return strings.ToValidUTF8(text[:maxTermination], "") // without half a character
}
