package gpu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// Result is what a program wrote and how it ended.
type Result struct {
	Out  []byte
	Err  string // the last line of standard error
	Code int    // exit status, or 128 and the signal
}

// Config is what Ask needs.
type Config struct {
	FS     sysfs.FS
	Env    LookupEnv
	Helper string // mpiup-nvml with its directory; "": there is none

	// Run runs a program, given with its directory or to be looked up on PATH, to its end and returns at the latest when
	// ctx ends, whatever becomes of the program: NVML can hang in the kernel. More than MaxReport bytes of output are an
	// error. nil: no program is asked.
	Run func(ctx context.Context, argv []string) (Result, error)
}

// timeout is how long a program may take. NVML wakes GPUs that are not kept awake, some
// seconds each, with 8 of them at once.
const timeout = 20 * time.Second

// Ask is the inventory as the best source there is tells it. It asks programs only about NVIDIA's GPUs, and only
// where files show one. The error says why better sources told nothing; the inventory is good even so.
func Ask(ctx context.Context, cfg Config) (Inventory, error) {
	files := Read(cfg.FS, cfg.Env)
	if files.Vendor != NVIDIA || cfg.Run == nil {
		return files, nil
	}
	var whys []error
	for _, source := range []func(context.Context) (Inventory, error){cfg.askHelper, cfg.askSMI} {
		inv, err := source(ctx)
		if err == nil && len(inv.GPUs) == 0 {
			err = fmt.Errorf("%s sees no GPU, and there are %d device files", inv.Source, len(files.GPUs))
		}
		if err == nil {
			inv.fill(files)
			for i := range inv.GPUs {
				reader{fs: cfg.FS}.place(&inv.GPUs[i])
			}
			return inv, errors.Join(whys...)
		}
		whys = append(whys, err)
	}
	return files, errors.Join(whys...)
}

// fill takes from files what the better source does not know.
func (inv *Inventory) fill(files Inventory) {
	inv.Driver = cmp.Or(inv.Driver, files.Driver)
	for i := range inv.GPUs {
		g := &inv.GPUs[i]
		j := slices.IndexFunc(files.GPUs, func(f GPU) bool { return f.At == g.At })
		if j < 0 {
			continue
		}
		if g.Minor < 0 {
			g.Minor = files.GPUs[j].Minor
		}
		g.UUID = cmp.Or(g.UUID, files.GPUs[j].UUID)
	}
}

func (cfg Config) askHelper(ctx context.Context) (Inventory, error) {
	if cfg.Helper == "" {
		return Inventory{}, errors.New("there is no mpiup-nvml beside mpiup")
	}
	out, err := cfg.run(ctx, cfg.Helper)
	if err != nil {
		return Inventory{}, err
	}
	return parseReport(out)
}

func (cfg Config) askSMI(ctx context.Context) (Inventory, error) {
	out, err := cfg.run(ctx, "nvidia-smi", "-q", "-x")
	if err != nil {
		return Inventory{}, err
	}
	inv, err := parseSMI(out, nil)
	if err != nil {
		return inv, err
	}
	if slices.ContainsFunc(inv.GPUs, func(g GPU) bool { return len(g.MIG) > 0 }) {
		if list, err := cfg.run(ctx, "nvidia-smi", "-L"); err == nil { // else without names
			if inv, err = parseSMI(out, list); err != nil {
				return inv, err
			}
		}
	}
	if len(inv.GPUs) > 1 {
		if table, err := cfg.run(ctx, "nvidia-smi", "topo", "-m"); err == nil { // else without NVLinks
			join(inv.GPUs, parseTopo(table))
		}
	}
	return inv, nil
}

func (cfg Config) run(ctx context.Context, argv ...string) ([]byte, error) {
	ctx, cancel := awake.Within(ctx, timeout)
	defer cancel()
	r, err := cfg.Run(ctx, argv)
	name := strings.Join(argv, " ")
	switch {
	case err != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return nil, fmt.Errorf("%s did not answer in %v", name, timeout)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case r.Code != 0 && r.Err != "":
		return nil, fmt.Errorf("%s ended with code %d: %s", name, r.Code, clean(r.Err))
	case r.Code != 0:
		return nil, fmt.Errorf("%s ended with code %d", name, r.Code)
	}
	return r.Out, nil
}
