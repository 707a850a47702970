package chaos

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
)

// phase is a stage of a job and how it is held there while the fault comes.
type phase struct {
	name string
	hold func(k *cell) // starts agents and launcher, and returns when the job stands still
}

// Names of phases, by which faults say where they differ.
const (
	gathering  = "gathering"
	launching  = "launching"
	inInit     = "in MPI_Init"
	inFence    = "in a fence"
	running    = "running"
	inFinalize = "in finalize"
)

var matrixPhases = []phase{
	// An agent is late: the launcher has opened the others' sessions and waits for it.
	{gathering, func(k *cell) {
		k.begin("free", hit, second)
		k.opened(hit)
		k.opened(second)
	}},
	// An agent is stopped before it reads the Launch: the other hosts are prepared, and wait for it.
	{launching, func(k *cell) {
		k.begin("free", hit, late)
		k.until("only "+second+" is missing", func() bool {
			_, line, _ := strings.Cut(k.job.Stderr.String(), fmt.Sprintf("mpiup: waiting for 1 of %d hosts", len(k.hosts)))
			line, _, whole := strings.Cut(line, "\n")
			return whole && strings.HasSuffix(line, second)
		})
		k.c.DNS().Silent(true) // the last host is found once its agent is there, so that the other one is stopped for a moment only
		k.start(second)
		k.held = late
		k.agents[late].Signal(k.t, syscall.SIGSTOP)
		k.c.DNS().Silent(false)
		k.until("a launch on w0", func() bool { return strings.Contains(k.agents[hit].Stderr.String(), "msg=start ") })
	}},
	// Every rank has called MPI_Init and stands before its first fence.
	{inInit, func(k *cell) {
		k.begin("init", hosts...)
		k.arrived(0)
		k.met()
	}},
	// One rank stands before its first fence; the others are in it.
	{inFence, func(k *cell) {
		k.begin("fence", hosts...)
		k.arrived(0)
		k.met()
		k.asleep(hit)
	}},
	// Ranks talk to each other and write as much as they can.
	{running, func(k *cell) {
		k.begin("run", hosts...)
		k.arrived(0)
		k.met()
	}},
	// One rank has not called MPI_Finalize; the others are in it.
	{inFinalize, func(k *cell) {
		k.begin("finalize", hosts...)
		k.arrived(0)
		k.met()
	}},
}

// begin starts agents on some hosts and the spare, and a launcher for all.
func (k *cell) begin(phase string, names ...string) {
	k.t.Helper()
	k.start(slices.Concat(names, k.hosts[len(hosts):])...)
	k.phase = phase
	k.job = k.launcher(phase)
}
