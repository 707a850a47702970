package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// The bounds of a trial that mpiup doctor runs on a host.
const (
	maxTrialText  = 1 << 20  // bytes of a host's word
	MaxTrialSize  = 64 << 30 // bytes that a host may be asked to write
	MinTrialSize  = 1 << 20
	MaxTrialHosts = 4096
)

// DirTrial is what one phase of the trial of a shared directory found. Fields of other phases are 0.
type DirTrial struct {
	Error string `json:"error,omitempty"` // why the phase could not be done; "": it was
	Fix   string `json:"fix,omitempty"`

	Size    int64 `json:"size,omitempty"`     // bytes that were written
	WriteNS int64 `json:"write_ns,omitempty"` // until they were on the storage
	SmallNS int64 `json:"small_ns,omitempty"` // to make, write, sync and remove a file of 4 KiB: the median

	ReadNS  int64 `json:"read_ns,omitempty"` // to read what another host wrote
	LateNS  int64 `json:"late_ns,omitempty"` // until the last of the others' files was there
	Missing []int `json:"missing,omitempty"` // hosts whose file is not there, or another
	Wrong   int64 `json:"wrong,omitempty"`   // bytes of the other host's file that are not as they were written

	NoLocks string `json:"no_locks,omitempty"` // why a file could not be locked
	Loose   bool   `json:"loose,omitempty"`    // what another host had locked could be locked here
	Stale   bool   `json:"stale,omitempty"`    // what another host wrote into a file of old was not seen within the patience
	Locked  int    `json:"locked,omitempty"`   // times that the counter was raised under a lock

	Count int `json:"count,omitempty"` // what the counter said at the end
}

// ParseTrial reads what a host says of a trial: one line of JSON, the last that it printed. Its values may be anything that a host made up.
func ParseTrial(output string) (v DirTrial, err error) {
	if len(output) > maxTrialText {
		return v, fmt.Errorf("it printed more than %d bytes", maxTrialText)
	}
	line := strings.TrimSpace(output)
	line = line[strings.LastIndexByte(line, '\n')+1:]
	if line == "" {
		return v, errors.New("it printed nothing")
	}
	if err := json.Unmarshal([]byte(line), &v); err != nil {
		return v, fmt.Errorf("its last line is not a result: %.100q", line)
	}
	return v, nil
}
