package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/mpiup/mpiup/internal/pattern"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

var (
	withSlots = pattern.Of(`^[A-Za-z0-9][A-Za-z0-9._-]*:[0-9]+$`)
	digits    = pattern.Of(`[0-9]+`)
)

// lostHosts finds words of hosts (--host) that stand where the program should, as in --host w0:2 w1:2 prog. They have
// slots, or they are no program here and have the hosts' names but for the numbers.
func lostHosts(hosts, words []string, env line.Outside) error {
	if len(hosts) == 0 {
		return nil
	}
	last := hosts[len(hosts)-1]
	last, _, _ = strings.Cut(last[strings.LastIndexByte(last, ',')+1:], ":")
	like := func(word string) bool {
		if strings.Contains(word, "/") || env.LookPath == nil || !digits().MatchString(word) ||
			digits().ReplaceAllString(word, "0") != digits().ReplaceAllString(last, "0") {
			return false
		}
		_, err := env.LookPath(word)
		return errors.Is(err, fs.ErrNotExist) // not for a mount that does not answer
	}
	n := 0
	for n < len(words) && (withSlots().MatchString(words[n]) || like(words[n])) {
		n++
	}
	if n == 0 {
		return nil
	}
	all := strings.Join(append(hosts[:len(hosts):len(hosts)], words[:n]...), ",")
	return fmt.Errorf("%s stands where the program should; write all hosts in one word, --host %.200s", visible.Clip(words[0]), all)
}
