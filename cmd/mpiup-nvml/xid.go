//go:build cgo

package main

import (
	"context"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// listen asks to be told of critical errors (Xids) of all GPUs; forget ends that. Without it, as with MIG devices of
// others or libraries that lack it, none are counted.
func (s *survey) listen() (forget func()) {
	nothing := func() {}
	for _, symbol := range []string{"nvmlEventSetCreate", "nvmlDeviceRegisterEvents"} {
		if !s.has(symbol) {
			return nothing
		}
	}
	set, ret := s.lib.EventSetCreate()
	if ret != nvml.SUCCESS {
		return nothing
	}
	free := func() { set.Free() }
	count, ret := s.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return free
	}
	for i := range count {
		d, ret := s.lib.DeviceGetHandleByIndex(i)
		if ret == nvml.SUCCESS && d.RegisterEvents(nvml.EventTypeXidCriticalError, set) == nvml.SUCCESS {
			s.xids, s.counts = set, map[string]uint64{}
		}
	}
	return free
}

// waitStep is how long NVML waits for an event at a time, since no signal ends that.
const waitStep = time.Second

// pause lets the interval pass, and counts what happens meanwhile; false when ctx has ended.
func (s *survey) pause(ctx context.Context, interval time.Duration) bool {
	end := time.Now().Add(interval)
	for ctx.Err() == nil {
		left := time.Until(end)
		if left <= 0 {
			return true
		}
		if s.xids != nil {
			event, ret := s.xids.Wait(uint32(max(min(left, waitStep)/time.Millisecond, 1)))
			switch ret {
			case nvml.SUCCESS:
				s.count(event)
				continue
			case nvml.ERROR_TIMEOUT:
				continue
			}
			s.xids = nil // it tells of no more: a GPU was lost
		}
		select {
		case <-ctx.Done():
		case <-time.After(left):
		}
	}
	return false
}

func (s *survey) count(event nvml.EventData) {
	if event.EventType&nvml.EventTypeXidCriticalError == 0 || event.Device == nil {
		return
	}
	if uuid, ret := event.Device.GetUUID(); ret == nvml.SUCCESS {
		s.counts[uuid]++
	}
}
