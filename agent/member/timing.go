package member

import "time"

// The intervals of the gossip.
//
// A silent peer is suspected within 10 s and out of the View within 30 s, at every size: each
// member probes one other a second, so in a job of n members a peer that no one has probed for 8 s has probability
// e^-8; the probe then fails within a second, and the suspicion stands for 15 s of our own running time. In the other
// direction, take a peer that was stopped for 8 s or cut off for 10 s. At the earliest it is suspected as it goes.
// When it comes back it has 5 s or more left, and hears of the suspicion from several members each second.
const (
	probeEvery   = time.Second            // between probes; an unanswered one takes this long
	probeTimeout = 500 * time.Millisecond // direct answer, before others are asked to probe
	gossipEvery  = 250 * time.Millisecond // between rounds of news
	suspicion    = 15 * time.Second       // from suspect to dropped
	pushPull     = 30 * time.Second       // whole state with one peer; memberlist doubles it above 32 members
	dialTime     = 2 * time.Second        // connect and handshake
	idleTime     = 3 * time.Minute        // a connection without frames is closed
	leftTime     = time.Minute            // a member that said goodbye stays listed
	seedMin      = 500 * time.Millisecond // first pause between calls of Seeds
	seedMax      = 10 * time.Second       // longest pause while nobody, or not everybody, is known
	seedRare     = time.Minute            // pause once all seeds are members
	leaveTime    = 500 * time.Millisecond // spent on saying goodbye when Run ends
)
