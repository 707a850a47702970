package host

import (
	"math"
	"strconv"
	"strings"
)

// Flags of a route (linux/route.h).
const (
	routeUp     = 0x1
	routeReject = 0x200
)

// maxRoutes bounds what is read of a route file in bytes; a host network's table may be longer.
const maxRoutes = 1 << 20

// defaultRoute4 is the interface of the IPv4 default route with the lowest metric, by the text of
// /proc/net/route; "" there is none.
//
//	Iface  Destination Gateway  Flags RefCnt Use Metric Mask     MTU Window IRTT
//	eth0   00000000    0163630A 0003  0      0   0      00000000 0   0      0
func defaultRoute4(text string) string {
	best, name := uint64(math.MaxUint64), ""
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 8 || f[1] != "00000000" || f[7] != "00000000" {
			continue
		}
		best, name = better(best, name, f[0], f[3], f[6], 10)
	}
	return name
}

// defaultRoute6 is the same of IPv6, by the text of /proc/net/ipv6_route: destination and its length, source
// and its length, next hop, metric, references, uses, flags, interface; numbers are hexadecimal.
func defaultRoute6(text string) string {
	best, name := uint64(math.MaxUint64), ""
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 10 || f[1] != "00" || strings.Trim(f[0], "0") != "" {
			continue
		}
		best, name = better(best, name, f[9], f[8], f[5], 16)
	}
	return name
}

// better is the better of the best route so far and one more.
func better(best uint64, name, iface, flags, metric string, base int) (uint64, string) {
	bits, err := strconv.ParseUint(flags, 16, 64)
	if err != nil || bits&routeUp == 0 || bits&routeReject != 0 || iface == "lo" {
		return best, name
	}
	if m, err := strconv.ParseUint(metric, base, 32); err == nil && m < best {
		return m, iface
	}
	return best, name
}
