package kvs

import (
	"fmt"
	"strconv"
)

// AnyOwner as the owner of a value is whoever put the key (PMI-1 has no owners).
const AnyOwner = -1

// Limits bound what ranks can make an agent hold. Ranks are not trusted by their agent.
type Limits struct {
	Key      int // bytes of a key; 511, PMIX_MAX_KEYLEN (PMI-1 and PMI-2 allow 64)
	Value    int // bytes of a value; 4 MiB (PMI-1 and PMI-2 allow about 1 KiB)
	RankKeys int // keys a rank may hold; 32768
	RankData int // bytes of keys and values a rank may hold; 64 MiB
	Fences   int // fences of different sets that a job has in flight on a host; 256
	Sending  int // bytes that a job's fences in flight carry away from a host; 224 MiB, below what goes into a frame of mpiup
	Again    int // of them, bytes beyond all that its ranks on the host hold; 32 MiB
	Names    int // published names; 4096
}

// DefaultLimits is far above what any MPI library uses: MPICH puts two values of 500 bytes a
// rank, large jobs with many communicators some hundred.
func DefaultLimits() Limits {
	return Limits{Key: 511, Value: 4 << 20, RankKeys: 32 << 10, RankData: 64 << 20, Fences: 256, Sending: 224 << 20, Again: 32 << 20, Names: 4096}
}

// check bounds one value by itself; what a rank holds in all is bounded by the store.
func (l Limits) check(owner int, key string, value []byte) error {
	if key == "" || len(key) > l.Key {
		return &LimitError{Owner: owner, Key: key, What: "key", Unit: "bytes", Got: len(key), Max: l.Key}
	}
	if len(value) > l.Value {
		return &LimitError{Owner: owner, Key: key, What: "value", Unit: "bytes", Got: len(value), Max: l.Value}
	}
	return nil
}

// LimitError is a bound that was passed. The rank's job can go on; its request is refused.
type LimitError struct {
	Owner int // rank; AnyOwner: unknown or the job
	Key   string
	What  string // what was too large
	Unit  string // of Got and Max
	Got   int
	Max   int
}

func (e *LimitError) Error() string {
	who := "the job"
	if e.Owner != AnyOwner {
		who = "rank " + strconv.Itoa(e.Owner)
	}
	return fmt.Sprintf("%s, key %.64q: %s of %d %s where 1 to %d are allowed", who, e.Key, e.What, e.Got, e.Unit, e.Max)
}

// FenceLimitError is a fence that would have carried too much, here, on another host or upstream. The job can go on: the
// ranks' barrier has failed on every host.
type FenceLimitError struct{ Why string }

func (e *FenceLimitError) Error() string { return e.Why }
