package resolve

import "golang.org/x/net/dns/dnsmessage"

// way is one way to put a question. A cache keeps the answers to different ways apart: CoreDNS's has
// an entry for each name, type, DO bit and, in newer versions, CD bit (plugin/cache, hash). Who asked
// too early in one way hears that denial for as long as the entry lasts, and so asks in another way.
type way struct {
	typ dnsmessage.Type // addresses: A and AAAA at once
	// DNSSEC OK and checking disabled (RFC 3225, RFC 2535). In a cluster's zone, which is not signed,
	// they change nothing but the entry.
	do, cd bool
}

const addresses dnsmessage.Type = 0

// addressWays are those that give addresses; the first is everybody's.
var addressWays = []way{{}, {do: true}, {cd: true}, {do: true, cd: true}}

// probes tell only whether a name exists. They ask for types of which hosts have no records: the answer is "no data"
// for a name that is there, and "no such name" for one that is not (RFC 2308, 2.2). CoreDNS looks the name up for such types
// as for A (plugin/kubernetes, ServeDNS); not for TXT, which it has for another purpose. Those that
// older CoreDNS keeps apart come first.
var probes = func() (ways []way) {
	const hinfo, rp, loc, naptr, sshfp, caa dnsmessage.Type = 13, 17, 29, 35, 44, 257
	for _, cd := range []bool{false, true} {
		for _, t := range []dnsmessage.Type{hinfo, caa, loc, naptr, sshfp, rp} {
			ways = append(ways, way{t, false, cd}, way{t, true, cd})
		}
	}
	return ways
}()
