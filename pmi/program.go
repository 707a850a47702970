package pmi

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/job"
)

// fields are the pairs of one part of a spawn request by key, the first of each.
type fields map[string]string

func fieldsOf(pairs []Pair) fields {
	f := make(fields, len(pairs))
	for _, p := range pairs {
		if _, ok := f[p.Key]; !ok {
			f[p.Key] = p.Value
		}
	}
	return f
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("a spawn request with "+format, args...)
}

// count is a number that may be missing, which means 0.
func (f fields) count(key string, max int) (int, error) {
	text, ok := f[key]
	if !ok {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > max {
		return 0, malformed("%s=%.20q; 0 to %d are possible", key, text, max)
	}
	return n, nil
}

// pairs reads as many keys and values as the number under count says.
func (f fields) pairs(count, key, value string, max int) ([]Pair, error) {
	n, err := f.count(count, max)
	if err != nil {
		return nil, err
	}
	var out []Pair
	for i := range n {
		k, hasKey := f[key+strconv.Itoa(i)]
		v, hasValue := f[value+strconv.Itoa(i)]
		if !hasKey || !hasValue {
			return nil, malformed("%s=%d and without %s%d or %s%d", count, n, key, i, value, i)
		}
		out = append(out, Pair{Key: k, Value: v})
	}
	return out, nil
}

// spawnWords are the keys of a spawn request in one dialect. Where a word is followed by a number,
// it counts from 0, but for arguments of PMI-1, which count from 1.
type spawnWords struct {
	programs, name, procs           string
	args, arg                       string
	infos, infoKey, infoValue       string
	preputs, preputKey, preputValue string
}

// MPICH src/pmi/maint/pmi-1.2.txt and pmi-2.0.txt. Arguments of PMI-2 begin at argv0 from all
// clients known, although pmi-2.0.txt says 1.
var (
	spawnWords1 = spawnWords{"totspawns", "execname", "nprocs", "argcnt", "arg",
		"info_num", "info_key_", "info_val_", "preput_num", "preput_key_", "preput_val_"}
	spawnWords2 = spawnWords{"ncmds", "subcmd", "maxprocs", "argc", "argv",
		"infokeycount", "infokey", "infoval", "preputcount", "ppkey", "ppval"}
)

// program reads one program of a request.
func (w *spawnWords) program(f fields) (job.SpawnProgram, error) {
	p := job.SpawnProgram{Argv: []string{f[w.name]}}
	var err error
	if p.Procs, err = f.count(w.procs, job.MaxSpawnProcs); err != nil {
		return p, err
	}
	n, err := f.count(w.args, job.MaxSpawnStrings)
	if err != nil {
		return p, err
	}
	first := 1
	if _, ok := f[w.arg+"0"]; ok {
		first = 0
	}
	for i := range n {
		key := w.arg + strconv.Itoa(first+i)
		arg, ok := f[key]
		if !ok {
			return p, malformed("%s=%d and without %s", w.args, n, key)
		}
		p.Argv = append(p.Argv, arg)
	}
	infos, err := f.pairs(w.infos, w.infoKey, w.infoValue, job.MaxSpawnStrings)
	if err != nil {
		return p, err
	}
	for _, info := range infos {
		if err := inform(&p, info.Key, info.Value); err != nil {
			return p, fmt.Errorf("spawn of %.100s: info key %s: %w", f[w.name], info.Key, err)
		}
	}
	return p, nil
}

// inform takes in one info key. It knows those that MPI reserves (MPI 4.1, 11.8.4) and those of Hydra (MPICH
// src/pm/hydra/mpiexec/pmiserv_spawn.c). Of Open MPI's it knows those that say what MPI has no word for
// (MPI_Comm_spawn(3)). Others are for somebody else, as MPI wants it.
func inform(p *job.SpawnProgram, key, value string) (err error) {
	switch strings.ReplaceAll(key, "-", "_") {
	case "host", "hosts":
		p.Hosts = append(p.Hosts, job.List(value)...)
	case "add_host":
		p.AddHosts = append(p.AddHosts, job.List(value)...)
	case "hostfile":
		p.Hostfile = value
	case "add_hostfile":
		p.AddHostfile = value
	case "wdir":
		p.Dir = value
	case "env":
		for line := range strings.Lines(value) {
			if line = strings.TrimSuffix(line, "\n"); line != "" {
				p.Env = append(p.Env, line)
			}
		}
	case "path":
		if strings.Contains(value, ":") {
			return errors.New("one directory is possible")
		}
		if !strings.Contains(p.Argv[0], "/") {
			p.Argv[0] = strings.TrimSuffix(value, "/") + "/" + p.Argv[0]
		}
	case "map_by":
		p.MapBy = strings.ToLower(value)
	case "ppn", "npernode":
		if p.PerHost, err = strconv.Atoi(value); err != nil || p.PerHost < 1 {
			return fmt.Errorf("%.20q is no number of processes", value)
		}
	case "soft":
		p.Procs, err = largest(value, p.Procs)
	}
	return err
}

// largest is the highest number up to limit in a soft specification: a comma-separated list of
// numbers and of ranges a:b and a:b:step (MPI 4.1, 11.8.1). As many processes as possible is what
// every program hopes for.
func largest(soft string, limit int) (int, error) {
	best := -1
	for _, text := range job.List(soft) {
		part := strings.Split(text, ":")
		n := []int{0, 0, 1}
		for i, s := range part {
			v, err := strconv.Atoi(s)
			if err != nil || i > 2 || v > 1<<30 || v < -1<<30 {
				return 0, fmt.Errorf("%.40q is no number or range", text)
			}
			n[i] = v
		}
		if len(part) == 1 {
			n[1] = n[0]
		}
		first, last, step := n[0], n[1], n[2]
		switch {
		case step == 0:
			return 0, fmt.Errorf("%.40q has no step", text)
		case step < 0 && first >= last: // the same numbers, from below
			first, last, step = first-(first-last)/-step*-step, first, -step
		}
		if last = min(last, limit); first <= last && step > 0 {
			best = max(best, first+(last-first)/step*step)
		}
	}
	if best < 1 {
		return 0, fmt.Errorf("%.40q allows for no number of processes up to %d", soft, limit)
	}
	return best, nil
}
