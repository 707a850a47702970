package member

import "time"

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
	for _, f := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&t.Probe, time.Second},
		{&t.ProbeTimeout, 500 * time.Millisecond},
		{&t.Gossip, 250 * time.Millisecond},
		{&t.Suspicion, 15 * time.Second},
		{&t.PushPull, 30 * time.Second},
		{&t.Dial, 2 * time.Second},
		{&t.Idle, 3 * time.Minute},
		{&t.Left, time.Minute},
		{&t.SeedMin, 500 * time.Millisecond},
		{&t.SeedMax, 10 * time.Second},
		{&t.SeedRare, time.Minute},
		{&t.Leave, 500 * time.Millisecond},
	} {
		if *f.field <= 0 {
			*f.field = f.value
		}
	}
	return t
}
