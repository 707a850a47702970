package job

import (
	"fmt"
	"strings"
)

// Spawn is what a rank asks for with MPI_Comm_spawn or MPI_Comm_spawn_multiple, in the same words for PMI-1, PMI-2 and
// PMIx. All its programs become one job. It was filled from what a rank sent: everything in it is hostile until Check
// has passed it.
type Spawn struct {
	Parent   int // rank, in its own job, of the root of the call
	Programs []SpawnProgram
	Preput   []Pair // PMI: keys the new job's ranks find (PMI_Spawn_multiple's preput_keyval)
}

// SpawnProgram is one command of a Spawn. Beyond Argv and Procs everything may be zero.
type SpawnProgram struct {
	Argv        []string
	Procs       int
	Env         []string // NAME=value
	Dir         string   // working directory (info key wdir)
	AlsoDir     bool     // a program that is not on PATH is looked for in its working directory
	Hosts       []string // "name" or "name:slots" (info key host)
	AddHosts    []string // hosts that join the run (add-host)
	Hostfile    string   // on the launcher's host (hostfile)
	AddHostfile string   // (add-hostfile)
	PerHost     int      // at most so many processes on a host (npernode, ppr); 0: no bound
	MapBy       string   // "slot", "node", "ppr:N:node" (map_by); "": slot
}

// List splits what a request lists at commas and blanks.
func List(text string) []string {
	return strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == ' ' })
}

// Pair is a key that no rank of a job put: whoever spawned the job did.
type Pair struct {
	Key   string
	Value []byte
}

// What a Spawn may hold.
const (
	MaxSpawnPrograms = 256
	MaxSpawnProcs    = 1 << 16
	MaxSpawnStrings  = 16 << 10 // arguments, variables and host names of a request
	MaxSpawnBytes    = 4 << 20  // all of them and the preput pairs together
	MaxPreput        = 1024
)

// Check refuses a request that no MPI library sends, or that is out of bounds.
func (r *Spawn) Check() error {
	if len(r.Programs) == 0 || len(r.Programs) > MaxSpawnPrograms {
		return fmt.Errorf("spawn of %d programs; 1 to %d are possible", len(r.Programs), MaxSpawnPrograms)
	}
	if len(r.Preput) > MaxPreput {
		return fmt.Errorf("spawn with %d keys for the new ranks; %d are possible", len(r.Preput), MaxPreput)
	}
	procs, count, size := 0, 0, 0
	add := func(list ...string) bool {
		for _, s := range list {
			if strings.ContainsRune(s, 0) {
				return false
			}
			count++
			size += len(s)
		}
		return true
	}
	for i, p := range r.Programs {
		if len(p.Argv) == 0 || p.Argv[0] == "" {
			return fmt.Errorf("spawn: program %d has no name", i)
		}
		if p.Procs < 1 || p.Procs > MaxSpawnProcs || p.PerHost < 0 {
			return fmt.Errorf("spawn of %d processes of %.100s; 1 to %d are possible", p.Procs, p.Argv[0], MaxSpawnProcs)
		}
		procs += p.Procs
		clean := add(p.Argv...) && add(p.Env...) && add(p.Hosts...) && add(p.AddHosts...) &&
			add(p.Dir, p.Hostfile, p.AddHostfile, p.MapBy)
		if !clean {
			return fmt.Errorf("spawn of %.100q: a NUL byte in its arguments, environment or info", p.Argv[0])
		}
		for _, kv := range p.Env {
			if name, _, ok := strings.Cut(kv, "="); !ok || name == "" {
				return fmt.Errorf("spawn of %.100s: %.100q is no NAME=value", p.Argv[0], kv)
			}
		}
	}
	for _, kv := range r.Preput {
		size += len(kv.Key) + len(kv.Value)
	}
	switch {
	case procs > MaxSpawnProcs:
		return fmt.Errorf("spawn of %d processes; %d are possible", procs, MaxSpawnProcs)
	case count > MaxSpawnStrings || size > MaxSpawnBytes:
		return fmt.Errorf("spawn request of %d strings and %d bytes; %d and %d are possible", count, size, MaxSpawnStrings, MaxSpawnBytes)
	}
	return nil
}
