package gloo

import "time"

// Limits of what the ranks of one job may keep on one host. A rank's value is its address for each of the
// others, some 140 bytes: 70 KB among 512 ranks, of which a host then holds 36 MB.
const (
	maxName   = 512       // bytes of a scope's or key's name
	maxValue  = 4 << 20   // bytes of a value
	maxBytes  = 256 << 20 // of all values, names and what a map's entry costs
	entryCost = 256       // bytes beside a value and its name

	maxConns  = 32 // of one rank at a time; Horovod has one
	maxBodies = 1  // of one rank that are taken in at a time
)

// What a rank puts for other hosts waits in the agent until they have it, and ranks may put again and again. So these
// bound the bytes at once, and those of each second from then on. Among 4096 ranks, 8 of a host tell 5 MB at an
// hvd.init.
const (
	tellAtOnce   = 256 << 20
	tellInSecond = 4 << 20
)

// patience is how long a GET waits for a key: Horovod asks again 10 ms after each 404, for every key that is
// missing.
const patience = 250 * time.Millisecond
