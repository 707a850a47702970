package cli

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/mpiup/mpiup/gpu"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/network"
	"github.com/mpiup/mpiup/rdma"
)

// maxCount is the largest number of ranks or hosts, as launcher/placement.MaxRanks.
const maxCount = 1 << 20

// durationValue is a time: "5" and "2.5" are seconds, the rest is as time.ParseDuration reads it.
type durationValue struct {
	d    *time.Duration
	zero bool // 0 is allowed
}

// ExportVar registers -x for commands that start one program.
func ExportVar(fs *pflag.FlagSet, p *[]string) {
	fs.VarP(&envValue{p}, "export", "x", "give the command `VAR[=V]`; without =V this command's own value; may be repeated")
}

// DurationVar registers a flag that is a time, as those of mpiup run; zero says whether 0 is one.
func DurationVar(fs *pflag.FlagSet, p *time.Duration, name string, def time.Duration, zero bool, usage string) {
	durationVar(fs, p, name, def, zero, usage)
}

func durationVar(fs *pflag.FlagSet, p *time.Duration, name string, def time.Duration, zero bool, usage string) {
	*p = def
	fs.Var(&durationValue{p, zero}, name, usage)
}

func (v *durationValue) String() string {
	if *v.d == 0 {
		return "" // the help says what 0 means
	}
	s := v.d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func (v *durationValue) Type() string { return "TIME" }

func (v *durationValue) Set(s string) error {
	d, err := ParseDuration(s)
	if err != nil {
		return err
	}
	if d == 0 && !v.zero {
		return errors.New("no time at all; use more than 0")
	}
	*v.d = d
	return nil
}

var (
	plainNumber = regexp.MustCompile(`^([0-9]+\.?[0-9]*|\.[0-9]+)$`)
	withUnits   = regexp.MustCompile(`^(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`)
)

// ParseDuration reads a time of a flag: seconds ("5", "0.5") or numbers with units ("90s",
// "1h30m"). It refuses what is negative, not a number or longer than 292 years.
func ParseDuration(s string) (time.Duration, error) {
	if len(s) > 64 {
		return 0, fmt.Errorf("%s is not a time; write 30, 30s, 5m or 1h30m", clip(s))
	}
	if plainNumber.MatchString(s) {
		s += "s"
	}
	if rest, negative := strings.CutPrefix(s, "-"); negative && (plainNumber.MatchString(rest) || withUnits.MatchString(rest)) {
		return 0, fmt.Errorf("%s is negative; use 0 or more", clip(s))
	}
	if !withUnits.MatchString(s) {
		return 0, fmt.Errorf("%s is not a time; write 30, 30s, 5m or 1h30m", clip(s))
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%s is too long a time", clip(s))
	}
	return d, nil
}

// countValue is a number from 1 to maxCount; its zero means not given.
type countValue struct{ n *int }

func countVar(fs *pflag.FlagSet, p *int, name, short, usage string) {
	fs.VarP(&countValue{p}, name, short, usage)
}

func (v *countValue) String() string { return strconv.Itoa(*v.n) }
func (v *countValue) Type() string   { return "N" }

func (v *countValue) Set(s string) error {
	n, err := parseCount(s)
	if err == nil {
		*v.n = n
	}
	return err
}

func parseCount(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("%s is not a number", clip(s))
	}
	if err != nil || n < 1 || n > maxCount {
		return 0, fmt.Errorf("%s is out of range; use 1 to %d", clip(s), maxCount)
	}
	return n, nil
}

// checkedValue is a text with a check.
type checkedValue struct {
	s     *string
	check func(string) error
}

func valueVar(fs *pflag.FlagSet, p *string, name, def string, check func(string) error, usage string) {
	*p = def
	fs.Var(&checkedValue{p, check}, name, usage)
}

func (v *checkedValue) String() string { return *v.s }
func (v *checkedValue) Type() string   { return "value" } // "string" would put the default in quotes

func (v *checkedValue) Set(s string) error {
	if err := v.check(s); err != nil {
		return err
	}
	*v.s = s
	return nil
}

// parsedValue is a flag whose text is read once, into what it means.
type parsedValue[T any] struct {
	to    *T
	parse func(string) (T, error)
	text  string // as written; "": not given
}

func parsedVar[T any](fs *pflag.FlagSet, p *T, name string, parse func(string) (T, error), usage string) {
	fs.Var(&parsedValue[T]{to: p, parse: parse}, name, usage)
}

func (v *parsedValue[T]) String() string { return v.text }
func (v *parsedValue[T]) Type() string   { return "value" }

func (v *parsedValue[T]) Set(s string) error {
	t, err := v.parse(s)
	if err == nil {
		*v.to, v.text = t, s
	}
	return err
}

func oneOf(words ...string) func(string) error {
	return func(s string) error {
		for _, w := range words {
			if s == w {
				return nil
			}
		}
		last := len(words) - 1
		return fmt.Errorf("%s is not known; use %s or %s", clip(s), strings.Join(words[:last], ", "), words[last])
	}
}

func notEmpty(what string) func(string) error {
	return func(s string) error {
		if s == "" {
			return fmt.Errorf("the value is empty; name %s", what)
		}
		return nil
	}
}

func checkStdin(s string) error {
	if s == "all" || s == "none" {
		return nil
	}
	if n, err := strconv.Atoi(s); err != nil || n < 0 || n >= maxCount || s[0] == '+' || s[0] == '-' {
		return fmt.Errorf("%s is not known; use a rank, all or none", clip(s))
	}
	return nil
}

func parseNet(s string) (network.Wish, error) {
	if s == "" {
		return network.Wish{}, errors.New("the value is empty; name an interface or a network")
	}
	return network.ParseWish(s)
}

func parseFabric(s string) (rdma.Fabric, error) {
	if s == "" {
		return "", errors.New("the value is empty; choose auto, rdma or tcp")
	}
	return rdma.ParseFabric(s)
}

func parseNCCL(s string) (rdma.NCCL, error) {
	if s == "" {
		return nil, errors.New("the value is empty; write parts as p2p=off,ib=off")
	}
	return rdma.ParseNCCL(s)
}

func parsePorts(s string) (network.Ports, error) {
	if s == "" {
		return network.Ports{}, errors.New("the value is empty; write a range as 18000-18999")
	}
	return network.ParsePorts(s)
}

// parseGPUBind keeps what --gpus-per-rank says.
func parseGPUBind(of *gpu.Wish) func(string) (gpu.Wish, error) {
	return func(s string) (gpu.Wish, error) {
		w, err := gpu.ParseBind(s)
		w.PerRank = of.PerRank
		return w, err
	}
}

// clip quotes foreign text for a message, cut at 40 bytes.
func clip(s string) string {
	if len(s) > 40 {
		return strconv.Quote(s[:40]) + "..."
	}
	return strconv.Quote(s)
}

// wrapValue collects --wrap, "RANKS COMMAND WORDS".
type wrapValue struct{ tools *[]job.Tool }

func (v *wrapValue) Set(s string) error {
	ranks, command, _ := strings.Cut(strings.TrimSpace(s), " ")
	var set idset.Set
	var err error
	if ranks == "all" {
	} else if set, err = idset.Parse(ranks); err != nil || set.Empty() {
		return fmt.Errorf("%s names no ranks; write --wrap 0,4-7 COMMAND, or --wrap all COMMAND", clip(ranks))
	}
	if i := strings.IndexAny(command, "'\"\\$`"); i >= 0 {
		return fmt.Errorf("%q in %s is not understood here; put the command into a script", command[i], clip(command))
	}
	words := strings.Fields(command)
	if len(words) == 0 {
		return fmt.Errorf("which command? write --wrap %s 'nsys profile'", ranks)
	}
	*v.tools = append(*v.tools, job.Tool{Argv: words, Ranks: set})
	return nil
}

func (v *wrapValue) String() string { return "" }
func (v *wrapValue) Type() string   { return "RANKS COMMAND" }
