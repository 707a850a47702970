package gpu

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/topology/sysfs"
)

func cpuSets(t *testing.T, lists ...string) (sets []idset.Set) {
	t.Helper()
	for _, l := range lists {
		s, err := idset.Parse(l)
		if err != nil {
			t.Fatal(err)
		}
		sets = append(sets, s)
	}
	return sets
}

func TestAssign(t *testing.T) {
	inv := Read(sysfs.New(load(t, "azure-ndv5")), noEnv) // GPUs 0 to 3 near CPUs 0-47, the rest near 48-95
	units := inv.Units()
	for _, tt := range []struct {
		name    string
		perRank int
		bind    string
		cpus    []string // of the ranks
		want    string   // an error's beginning, or the units of each
	}{
		{"nothing wished", 0, "", []string{"0-95", "0-95"}, "[[] []]"},
		{"one each", 1, "", []string{"", "", ""}, "[[0] [1] [2]]"},
		{"four each", 4, "", []string{"", ""}, "[[0 1 2 3] [4 5 6 7]]"},
		{"more than there are", 3, "", []string{"", "", ""}, "3 ranks with 3 GPUs each need 9, and this host has 8"},
		{"a rank with more than there are", 9, "closest", []string{""}, "a rank is to have 9 GPUs, and this host has 8"},
		{"closest", 0, "closest", []string{"3", "60-63", "0-95", ""}, "[[0 1 2 3] [4 5 6 7] [0 1 2 3 4 5 6 7] [0 1 2 3 4 5 6 7]]"},
		{"one closest", 1, "closest", []string{"0-3", "4-7", "90", "91", "8"}, "[[0] [1] [4] [5] [2]]"},
		{"closest, from further away", 6, "closest", []string{"0-3"}, "[[0 1 2 3 4 5]]"},
		{"closest, shared", 1, "closest", []string{"0", "1", "2", "3", "4"}, "[[0] [1] [2] [3] [0]]"},
		{"mostly one side's", 0, "closest", []string{"40-50"}, "[[0 1 2 3]]"},
		{"map", 0, "map:7,0", []string{"", "", ""}, "[[7] [0] [7]]"},
		{"mask", 0, "mask:0x81,c", []string{"", ""}, "[[0 7] [2 3]]"},
		{"map beyond", 0, "map:0,8", []string{"", ""}, "--gpu-bind gives local rank 1 GPU 8, and this host has 8, numbered from 0"},
		{"map beyond, for a rank there is not", 0, "map:0,8", []string{""}, "[[0]]"},
	} {
		w, err := ParseWish(tt.perRank, tt.bind)
		if err != nil {
			t.Fatal(tt.name, err)
		}
		sets, err := Assign(w, units, cpuSets(t, tt.cpus...))
		got := fmt.Sprint(sets)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	if _, err := Assign(Wish{PerRank: 1}, nil, make([]idset.Set, 1)); err == nil {
		t.Error("a GPU of none")
	}
}

func TestParseWishRefuses(t *testing.T) {
	for _, tt := range []struct {
		perRank int
		bind    string
		want    string
	}{
		{-1, "", "--gpus-per-rank: -1 is out of range; use 1 to 256"},
		{257, "", "--gpus-per-rank: 257 is out of range"},
		{0, "nearest", `--gpu-bind: "nearest" is not known; use closest, map:0,1 or mask:0x3,0xc`},
		{0, "map:", `--gpu-bind: "" is no GPU's number; write map:0,1,2,3`},
		{0, "map:0,-1", `--gpu-bind: "-1" is no GPU's number`},
		{0, "map:0,256", `--gpu-bind: "256" is no GPU's number`},
		{0, "mask:0x0", `--gpu-bind: "0x0" is no mask of GPUs`},
		{0, "mask:0x1ffffffffffffffff", `--gpu-bind: "0x1ffffffffffffffff" is no mask of GPUs`},
		{1, "map:0", "--gpu-bind lists each rank's GPUs already; leave out --gpus-per-rank"},
		{0, "map:" + strings.Repeat("0,", maxSets) + "0", "--gpu-bind: more than 4096 ranks are listed"},
	} {
		if w, err := ParseWish(tt.perRank, tt.bind); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%d %.40q: %+v, %v, want %q", tt.perRank, tt.bind, w, err, tt.want)
		}
	}
}

// A wish is handed on as the text that it was read from.
func TestBindIsReadAsItIsWritten(t *testing.T) {
	for _, bind := range []string{"", "closest", "map:0,1,1,255", "mask:0x3,0x1,0x8000000000000000"} {
		if w, err := ParseWish(0, bind); err != nil || w.Bind() != bind {
			t.Errorf("%q: %q, %v", bind, w.Bind(), err)
		}
	}
}

func TestVariables(t *testing.T) {
	files, all := migSources(t)
	named, err := ask(t, files, all, helper)
	if err != nil {
		t.Fatal(err)
	}
	unnamed := Read(sysfs.New(files), noEnv)
	nameless := Inventory{Vendor: NVIDIA, GPUs: []GPU{{Number: 0}, {Number: 1}}}
	amd := Read(sysfs.New(load(t, "xgmi")), noEnv)
	for _, tt := range []struct {
		name   string
		inv    *Inventory
		chosen []int
		want   string
	}{
		{"nothing chosen", &named, nil, ""},
		{"a GPU", &named, []int{0}, "CUDA_VISIBLE_DEVICES=GPU-4d0f2e11-9d4b-6f52-8a11-1c0a9a6b7d01"},
		{"a MIG device", &named, []int{2}, "CUDA_VISIBLE_DEVICES=MIG-7c6b0a1e-52a7-5f0c-9d55-a2c3a3b0c005"},
		{"a MIG device without a name", &unnamed, []int{1}, "MIG devices are known here, but not their names; put mpiup-nvml beside mpiup, or nvidia-smi on PATH"},
		{"NVIDIA's without names", &nameless, []int{1, 0}, "CUDA_VISIBLE_DEVICES=1,0 CUDA_DEVICE_ORDER=PCI_BUS_ID"},
		{"AMD's", &amd, []int{7, 0}, "ROCR_VISIBLE_DEVICES=GPU-98a7d9b8314c0007,GPU-98a7d9b8314c0000"},
	} {
		vars, err := Variables(tt.inv.Vendor, tt.inv.Units(), tt.chosen)
		got := strings.Join(vars, " ")
		if err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestWhatTheUserSetStays(t *testing.T) {
	for _, tt := range []struct {
		vendor Vendor
		set    []string
		want   string
	}{
		{NVIDIA, []string{"CUDA_VISIBLE_DEVICES"}, "CUDA_VISIBLE_DEVICES"},
		{NVIDIA, []string{"NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"}, ""},
		{AMD, []string{"HIP_VISIBLE_DEVICES"}, "HIP_VISIBLE_DEVICES"},
		{AMD, []string{"CUDA_VISIBLE_DEVICES"}, "CUDA_VISIBLE_DEVICES"},
		{Intel, []string{"ONEAPI_DEVICE_SELECTOR"}, "ONEAPI_DEVICE_SELECTOR"},
	} {
		if got := SetAlready(tt.vendor, func(name string) bool { return slices.Contains(tt.set, name) }); got != tt.want {
			t.Errorf("%s with %v: %q", tt.vendor, tt.set, got)
		}
	}
}

// What verdicts go by where there are too few GPUs.
func TestTooFewGPUsAreENODEV(t *testing.T) {
	units := []Unit{{}}
	for _, w := range []Wish{{PerRank: 1}, {PerRank: 2}} {
		for _, have := range [][]Unit{nil, units} {
			if _, err := Assign(w, have, make([]idset.Set, 2)); !errors.Is(err, unix.ENODEV) {
				t.Errorf("%+v of %d: %v", w, len(have), err)
			}
		}
	}
}
