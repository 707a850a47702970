package aftermath

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/launcher/cli"
	"github.com/mpiup/mpiup/launcher/verdict/logs"
)

// Picking says which lines are wanted, in the words of the flags.
type Picking struct{ Ranks, Host, Stream, Since, Until, Level string }

// Wanted is what they ask for. An error names the flag.
func (k *Picking) Wanted(now time.Time) (w Wanted, err error) {
	if k.Stream != "" && k.Stream != "stdout" && k.Stream != "stderr" {
		return w, fmt.Errorf("--stream %.80s: use stdout or stderr", k.Stream)
	}
	w.Host, w.Stream = k.Host, k.Stream
	if w.Ranks, err = idset.Parse(k.Ranks); err != nil || k.Ranks != "" && w.Ranks.Empty() {
		return w, fmt.Errorf("--rank %.80s: write ranks as in 3 or 0,8-15", k.Ranks)
	}
	i := slices.Index(logs.Levels, k.Level)
	if i < 0 {
		return w, fmt.Errorf("--level %.80s: use %s", k.Level, strings.Join(logs.Levels, ", "))
	}
	w.Level = logs.Level(i)
	if w.Since, err = cli.ParseMoment(k.Since, now); err != nil {
		return w, fmt.Errorf("--since %w", err)
	}
	if w.Until, err = cli.ParseMoment(k.Until, now); err != nil {
		return w, fmt.Errorf("--until %w", err)
	}
	return w, nil
}
