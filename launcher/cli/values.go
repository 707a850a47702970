package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/mpiup/mpiup/gpu"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/pattern"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
	"github.com/mpiup/mpiup/launcher/iof"
	"github.com/mpiup/mpiup/launcher/progress"
)

// maxCount is the largest number of ranks or hosts, as launcher/placement.MaxRanks.
const maxCount = 1 << 20

// valueVar registers a flag whose text is read into what it means. Help shows p's value as what it is otherwise, if
// that is a text or a time.
func valueVar[T any](fs *pflag.FlagSet, p *T, name, short string, parse func(string) (T, error), usage string) {
	fs.FuncP(name, short, usage, func(s string) error {
		v, err := parse(s)
		if err == nil {
			*p = v
		}
		return err
	})
	switch def := any(*p).(type) {
	case string:
		fs.Lookup(name).DefValue = def
	case time.Duration:
		fs.Lookup(name).DefValue = written(def)
	}
}

// addVar registers a flag that may be repeated, each time with one more value.
func addVar[T any](fs *pflag.FlagSet, p *[]T, name, short string, parse func(string) (T, error), usage string) {
	fs.FuncP(name, short, usage, func(s string) error {
		v, err := parse(s)
		if err == nil {
			*p = append(*p, v)
		}
		return err
	})
}

// ExportVar registers -x, by which a program is given variables.
func ExportVar(fs *pflag.FlagSet, p *[]string, usage string) {
	addVar(fs, p, "export", "x", parseVariable, usage)
}

// DurationVar registers a flag that is a time; zero says whether 0 is one.
func DurationVar(fs *pflag.FlagSet, p *time.Duration, name string, def time.Duration, zero bool, usage string) {
	*p = def
	valueVar(fs, p, name, "", func(s string) (time.Duration, error) {
		d, err := ParseDuration(s)
		if err == nil && d == 0 && !zero {
			err = errors.New("no time at all; use more than 0")
		}
		return d, err
	}, usage)
}

// written is a time as a user writes it; "": 0, of which the help says what it means.
func written(d time.Duration) string {
	if d == 0 {
		return ""
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

var (
	plainNumber = pattern.Of(`^([0-9]+\.?[0-9]*|\.[0-9]+)$`)
	clock       = pattern.Of(`^(?:(?:([0-9]{1,4})-)?([0-9]{1,4}):)?([0-9]{1,4}):([0-9]{1,2})$`)
	withUnits   = pattern.Of(`^(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`)
)

// ParseDuration reads a time of a flag: seconds ("5", "0.5"), numbers with units ("90s",
// "1h30m"), or as Slurm writes it, "00:01:00" and "1-12:00:00" with days. It refuses what is negative, not a number or longer than 292 years.
func ParseDuration(s string) (time.Duration, error) {
	if len(s) > 64 {
		return 0, fmt.Errorf("%s is not a time; write 30, 30s, 5m or 1h30m", visible.Clip(s))
	}
	if plainNumber().MatchString(s) {
		s += "s"
	}
	if rest, negative := strings.CutPrefix(s, "-"); negative && (plainNumber().MatchString(rest) || withUnits().MatchString(rest)) {
		return 0, fmt.Errorf("%s is negative; use 0 or more", visible.Clip(s))
	}
	if c := clock().FindStringSubmatch(s); c != nil {
		if c[2] == "" {
			return 0, fmt.Errorf("%s may be minutes or hours; write %sm%ss or %[2]sh%[3]sm", visible.Clip(s), c[3], c[4])
		}
		days, _ := strconv.Atoi(c[1]) // digits, or nothing
		hours, _ := strconv.Atoi(c[2])
		s = fmt.Sprintf("%dh%sm%ss", 24*days+hours, c[3], c[4])
	}
	if !withUnits().MatchString(s) {
		return 0, fmt.Errorf("%s is not a time; write 30, 30s, 5m or 1h30m", visible.Clip(s))
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%s is too long a time", visible.Clip(s))
	}
	return d, nil
}

// parseCount reads a number from 1 to maxCount.
func parseCount(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("%s is not a number", visible.Clip(s))
	}
	if err != nil || n < 1 || n > maxCount {
		return 0, fmt.Errorf("%s is out of range; use 1 to %d", visible.Clip(s), maxCount)
	}
	return n, nil
}

func oneOf(words ...string) func(string) (string, error) {
	return func(s string) (string, error) {
		if slices.Contains(words, s) {
			return s, nil
		}
		last := len(words) - 1
		return "", fmt.Errorf("%s is not known; use %s or %s", visible.Clip(s), strings.Join(words[:last], ", "), words[last])
	}
}

// abortVar registers a flag that says what is done where something is noticed.
func abortVar(fs *pflag.FlagSet, p *bool, name, usage string) {
	valueVar(fs, p, name, "", func(s string) (bool, error) {
		word, err := oneOf("notice", "abort")(s)
		return word == "abort", err
	}, usage)
	fs.Lookup(name).DefValue = "notice"
}

// outputForm is how output is shown; where it goes is another flag's.
func outputForm(s string) (iof.Mode, error) {
	form, err := oneOf("plain", "tag", "json")(s)
	if err != nil {
		err = fmt.Errorf("%w (files are written by --output-dir DIR)", err)
	}
	return map[string]iof.Mode{"plain": iof.Plain, "tag": iof.Tag, "json": iof.JSON}[form], err
}

// pictureFile is where a picture in SVG goes.
func pictureFile(s string) (string, error) {
	switch ext := strings.ToLower(filepath.Ext(s)); {
	case s == "":
		return "", errors.New("the value is empty; name a file")
	case slices.Contains([]string{".png", ".jpg", ".jpeg", ".gif", ".pdf", ".webp", ".html"}, ext):
		return "", fmt.Errorf("the picture is SVG, not %s; write %s, which a browser shows", ext[1:], visible.Path(strings.TrimSuffix(s, filepath.Ext(s))+".svg"))
	}
	return s, nil
}

// PictureVar registers --svg FILE.
func PictureVar(fs *pflag.FlagSet, to *string, usage string) {
	valueVar(fs, to, "svg", "", pictureFile, usage)
}

// text is any text but none at all; do says what to write.
func text(do string) func(string) (string, error) {
	return given(func(s string) (string, error) { return s, nil }, do)
}

// given is parse, which is not asked of nothing at all; do says what to write.
func given[T any](parse func(string) (T, error), do string) func(string) (T, error) {
	return func(s string) (t T, err error) {
		if s == "" {
			return t, errors.New("the value is empty; " + do)
		}
		return parse(s)
	}
}

// understood is a text that parse has nothing against.
func understood[T any](parse func(string) (T, error)) func(string) (string, error) {
	return func(s string) (string, error) {
		_, err := parse(s)
		return s, err
	}
}

func parseStdin(s string) (string, error) {
	if s == "all" || s == "none" {
		return s, nil
	}
	if n, err := strconv.Atoi(s); err != nil || n < 0 || n >= maxCount || s[0] == '+' || s[0] == '-' {
		return "", fmt.Errorf("%s is not known; use a rank, all or none", visible.Clip(s))
	}
	return s, nil
}

// parseWatchRank reads whose output --watch reads.
func parseWatchRank(s string) (int, error) {
	switch s {
	case "first":
		return progress.First, nil
	case "each":
		return progress.Each, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n >= maxCount || s[0] == '+' {
		return 0, fmt.Errorf("%s is not known; use a rank, first or each", visible.Clip(s))
	}
	return n, nil
}

// ParseCheckpointDir refuses what is not one place on every host.
func ParseCheckpointDir(s string) (string, error) {
	if len(s) >= 4096 || !filepath.IsAbs(s) || strings.ContainsAny(s, "\x00\n") { // PATH_MAX
		return "", fmt.Errorf("%s is no absolute path; name the directory as all hosts see it", visible.Clip(s))
	}
	return s, nil
}

// parseGPUBind keeps what --gpus-per-rank says.
func parseGPUBind(of *gpu.Wish) func(string) (gpu.Wish, error) {
	return func(s string) (gpu.Wish, error) {
		w, err := gpu.ParseBind(s)
		w.PerRank = of.PerRank
		return w, err
	}
}

// parseTool reads --wrap, "RANKS COMMAND WORDS".
func parseTool(s string) (t job.Tool, err error) {
	ranks, command, _ := strings.Cut(strings.TrimSpace(s), " ")
	if ranks != "all" {
		if t.Ranks, err = idset.Parse(ranks); err != nil || t.Ranks.Empty() {
			return t, fmt.Errorf("%s names no ranks; write --wrap 0,4-7 COMMAND, or --wrap all COMMAND", visible.Clip(ranks))
		}
	}
	if i := strings.IndexAny(command, "'\"\\$`"); i >= 0 {
		return t, fmt.Errorf("%q in %s is not understood here; put the command into a script", command[i], visible.Clip(command))
	}
	if t.Argv = line.Words(command); len(t.Argv) == 0 {
		return t, fmt.Errorf("which command? write --wrap %s 'nsys profile'", ranks)
	}
	return t, nil
}

// parseLoss reads --on-launcher-loss.
func parseLoss(s string) (job.Loss, error) {
	const most = 24 * time.Hour // agents' bound
	text, hold := strings.CutPrefix(s, "hold=")
	if s == "fence" {
		return job.Loss{Said: true}, nil
	}
	if !hold {
		return job.Loss{}, fmt.Errorf("%s is not known; write fence, or hold=10m", visible.Clip(s))
	}
	d, err := ParseDuration(text)
	if err != nil {
		return job.Loss{}, err
	}
	if d < time.Second || d > most {
		return job.Loss{}, fmt.Errorf("%v is out of range; hold ranks for 1s to 24h", d)
	}
	return job.Loss{Said: true, Hold: d}, nil
}

// parseRestarts is how often ranks may be started again.
func parseRestarts(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil || n > job.MaxRestarts {
		return 0, fmt.Errorf("%s is no number from 0 to %d", visible.Clip(s), job.MaxRestarts)
	}
	return int(n), nil
}

// ParseMoment is a time, or how long before now; the zero time for "".
func ParseMoment(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	ago, err := ParseDuration(text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%.80s: write a moment as in 2026-11-23T04:00:00Z, or how long ago as in 10m", text)
	}
	return now.Add(-ago), nil
}
