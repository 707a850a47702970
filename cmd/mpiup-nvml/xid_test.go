//go:build cgo

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"

	"github.com/mpiup/mpiup/gpu"
)

// A stream counts critical errors by GPU, from when it began; a library that fails to tell of more, or at all, costs
// nothing else.
func TestXids(t *testing.T) {
	for _, tt := range []struct {
		name   string
		events int // at a second each, of GPU 3; then LOST
		create nvml.Return
		old    bool
		want   []uint64 // in reports at 0, 10, 20 s
	}{
		{"two", 2, nvml.SUCCESS, false, []uint64{0, 2, 2}},
		{"many", 15, nvml.SUCCESS, false, []uint64{0, 10, 15}},
		{"none", 0, nvml.SUCCESS, false, []uint64{0, 0, 0}},
		{"no permission", 2, nvml.ERROR_NO_PERMISSION, false, []uint64{0, 0, 0}},
		{"an old library", 2, nvml.SUCCESS, true, []uint64{0, 0, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, devices := dgx()
				left, freed := tt.events, false
				if tt.old {
					server.LookupSymbolFunc = func(name string) error { return errors.New(name) }
				}
				server.EventSetCreateFunc = func() (nvml.EventSet, nvml.Return) {
					if tt.old {
						t.Error("a function that the library lacks is called")
					}
					return &mock.EventSet{
						WaitFunc: func(ms uint32) (nvml.EventData, nvml.Return) {
							time.Sleep(time.Duration(ms) * time.Millisecond)
							if left == 0 {
								return nvml.EventData{}, nvml.ERROR_GPU_IS_LOST
							}
							left--
							return nvml.EventData{Device: devices[3], EventType: nvml.EventTypeXidCriticalError, EventData: 79}, nvml.SUCCESS
						},
						FreeFunc: func() nvml.Return { freed = true; return nvml.SUCCESS },
					}, tt.create
				}
				for _, d := range devices {
					d.RegisterEventsFunc = func(kinds uint64, _ nvml.EventSet) nvml.Return {
						if kinds != nvml.EventTypeXidCriticalError {
							t.Errorf("events %#x", kinds)
						}
						return nvml.SUCCESS
					}
				}
				quiet(devices)
				ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
				defer cancel()
				var out, said bytes.Buffer
				if code := run(ctx, server, []string{"--interval", "10s"}, &out, &said); code != 0 {
					t.Fatalf("code %d: %s", code, said.String())
				}
				var got []uint64
				for reports := json.NewDecoder(&out); reports.More(); {
					var r gpu.Report
					if err := reports.Decode(&r); err != nil {
						t.Fatal(err)
					}
					got = append(got, r.GPUs[3].Usage.Xids)
					if n := r.GPUs[2].Usage.Xids; n != 0 {
						t.Errorf("another GPU has %d", n)
					}
				}
				if fmt.Sprint(got) != fmt.Sprint(tt.want) || freed != (tt.create == nvml.SUCCESS && !tt.old) {
					t.Errorf("%v, not %v; freed %v", got, tt.want, freed)
				}
			})
		})
	}
}
