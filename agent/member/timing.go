package member

import (
	"cmp"
	"time"
)

// Timing holds every interval of the gossip. The zero value of a field means its default.
//
// With the defaults a silent peer is suspected within 10 s and out of the View within 30 s, at every size: each
// member probes one other a second, so in a job of n members a peer that no one has probed for 8 s has probability
// e^-8; the probe then fails within a second, and the suspicion stands for 15 s of our own running time. In the other
// direction, take a peer that was stopped for 8 s or cut off for 10 s. At the earliest it is suspected as it goes.
// When it comes back it has 5 s or more left, and hears of the suspicion from several members each second.
type Timing struct {
	Probe        time.Duration // between probes; an unanswered one takes this long. Default 1 s
	ProbeTimeout time.Duration // direct answer, before others are asked to probe. Default 500 ms
	Gossip       time.Duration // between rounds of news. Default 250 ms
	Suspicion    time.Duration // from suspect to dropped. Default 15 s
	PushPull     time.Duration // whole state with one peer; memberlist doubles it above 32 members. Default 30 s
	Dial         time.Duration // connect and handshake. Default 2 s
	Idle         time.Duration // a connection without frames is closed. Default 3 min
	Left         time.Duration // a member that said goodbye stays listed. Default 1 min
	SeedMin      time.Duration // first pause between calls of Seeds. Default 500 ms
	SeedMax      time.Duration // longest pause while nobody, or not everybody, is known. Default 10 s
	SeedRare     time.Duration // pause once all seeds are members. Default 1 min
	Leave        time.Duration // spent on saying goodbye when Run ends. Default 500 ms
}

func (t Timing) withDefaults() Timing {
	return Timing{
		Probe:        cmp.Or(t.Probe, time.Second),
		ProbeTimeout: cmp.Or(t.ProbeTimeout, 500*time.Millisecond),
		Gossip:       cmp.Or(t.Gossip, 250*time.Millisecond),
		Suspicion:    cmp.Or(t.Suspicion, 15*time.Second),
		PushPull:     cmp.Or(t.PushPull, 30*time.Second),
		Dial:         cmp.Or(t.Dial, 2*time.Second),
		Idle:         cmp.Or(t.Idle, 3*time.Minute),
		Left:         cmp.Or(t.Left, time.Minute),
		SeedMin:      cmp.Or(t.SeedMin, 500*time.Millisecond),
		SeedMax:      cmp.Or(t.SeedMax, 10*time.Second),
		SeedRare:     cmp.Or(t.SeedRare, time.Minute),
		Leave:        cmp.Or(t.Leave, 500*time.Millisecond),
	}
}
