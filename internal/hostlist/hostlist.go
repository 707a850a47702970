// Package hostlist reads the hosts a user or an operator names: lists on the command line and
// hostfiles in the spellings of both MPI families.
//
//	--host w0,w1:4,[fd00::7]:2          name [":" slots] { "," ... }
//	--host w[0-3,7]:4                   w0 to w3 and w7, as Slurm writes hosts (ranges.go); in files too
//
//	# hostfile                          one host a line; "#" and "//" begin a comment
//	w0.pi.ns.svc slots=4                Open MPI, as MPI Operator and Trainer write it
//	w1.pi.ns.svc slots=4 max_slots=8    max_slots is checked and otherwise not used
//	w2.pi.ns.svc:4                      MPICH and Intel MPI
//	w3                                  slots not given: the agent's own count
//
// Unlike with Open MPI, a repeated host is an error, which says how to write the slots. A
// copied line is mostly a mistake, and a launcher that gives one host two shares hides it. Names keep their spelling, but two that differ
// in case or in a final dot are the same host.
//
// Files and lists meant for another launcher are read by its rules (Dialect).
//
// All functions are pure but ReadFile, which opens a file. The package does not resolve names
// and does not know that two names are one host, or that a name stands for several agents.
package hostlist

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mpiup/mpiup/internal/visible"
)

// Limits on foreign text.
const (
	MaxHosts = 1 << 16 // hosts in one list or file
	MaxSlots = 1 << 16 // slots of one host
	// mostColon is the most slots behind a colon, as many ranks as one host starts: what is more was meant as a port. slots=9999, by which scripts of
	// Open MPI say "as many as you like", stays.
	mostColon = 4096
	// MaxPlaces is how many ranks a file of places may have.
	MaxPlaces = 1 << 20
	MaxFile   = 16 << 20
	maxName   = 253 // RFC 1035, without the final dot
	maxLabel  = 63
)

// Entry is one host as it was named.
type Entry struct {
	Name  string // host name or IP address, without brackets
	Slots int    // at least 1 if Given, else 0; by Open MPI's rules 0 if Given too, a host that is switched off
	Given bool   // a number of slots was written
	Line  int    // in File, from 1; 0 for a list
	File  string // "" for a list
}

// ParseList reads "h[:slots],...", the value of --host. An IPv6 address stands in brackets.
// Errors name the host, and leave it to the caller to say where the list stood.
func ParseList(list string) ([]Entry, error) { return ParseListAs(list, Own) }

// CheckDistinct returns an error that names the first host standing in entries twice. ParseList
// and ParseFile have called it; it is for entries joined from several lists.
func CheckDistinct(entries []Entry) (err error) {
	var distinct []Entry
	seen := make(map[string]int, len(entries))
	for _, e := range entries {
		if distinct, err = Own.add(distinct, seen, e); err != nil {
			return err
		}
	}
	return nil
}

// slotsOf is what Open MPI counts one mention of a host as.
func slotsOf(e Entry) int {
	if e.Given {
		return e.Slots
	}
	return max(e.Slots, 1)
}

func inList(name string, slots int) string {
	if strings.Contains(name, ":") {
		name = "[" + name + "]"
	}
	return name + ":" + strconv.Itoa(slots)
}

// parseHost reads "name", "name:slots", "[v6]" or "[v6]:slots". Errors name the item.
func parseHost(item string, d Dialect) (Entry, error) {
	name, slots, given := item, "", false
	if rest, ok := strings.CutPrefix(item, "["); ok {
		addr, after, closed := strings.Cut(rest, "]")
		ip, err := netip.ParseAddr(addr)
		if !closed || err != nil || !ip.Is6() || strings.ContainsFunc(ip.Zone(), notZone) {
			return Entry{}, fmt.Errorf("%s: brackets hold an IPv6 address, [fd00::7]:4", visible.Clip(item))
		}
		name = addr
		slots, given = strings.CutPrefix(after, ":")
		if after != "" && !given {
			return Entry{}, fmt.Errorf("%s: only :slots may follow the bracket", visible.Clip(item))
		}
	} else {
		if ip, err := netip.ParseAddr(item); err == nil && ip.Is6() {
			return Entry{}, fmt.Errorf("%s: write an IPv6 address in brackets, [%.40s]", visible.Clip(item), item)
		}
		name, slots, given = strings.Cut(item, ":")
		if err := CheckName(name); err != nil {
			return Entry{}, err
		}
	}
	e := Entry{Name: name, Given: given}
	if given {
		var err error
		if e.Slots, err = parseSlots(slots, d); err != nil {
			return Entry{}, fmt.Errorf("host %s: %w", name, err)
		}
		if e.Slots > mostColon {
			return Entry{}, fmt.Errorf("host %s: %d after the colon is a number of slots, and no host starts more than %d ranks; ports are not named, "+
				"launchers find the agents' own", name, e.Slots, mostColon)
		}
	}
	return e, nil
}

// CheckName takes host names as DNS has them, with the underscore that /etc/hosts files and
// some resolvers allow, and IPv4 addresses. Every other text would fail later and less clearly.
func CheckName(name string) error {
	bare := strings.TrimSuffix(name, ".")
	switch {
	case name == "":
		return fmt.Errorf("a host name is missing before \":\"")
	case len(bare) > maxName:
		return fmt.Errorf("host name %s has %d characters, more than %d", visible.Clip(name), len(bare), maxName)
	case strings.Contains(name, "@"):
		return fmt.Errorf("%s: no user name is needed to reach an agent; write the host alone", visible.Clip(name))
	case strings.HasPrefix(name, "^"), strings.HasPrefix(name, "+"):
		return fmt.Errorf("%s: Open MPI's relative and excluded hosts are not known here; name the hosts wanted", visible.Clip(name))
	}
	if !utf8.ValidString(name) {
		return fmt.Errorf("%s is not a host name: its bytes are no text", visible.Clip(name))
	}
	for label := range strings.SplitSeq(bare, ".") {
		if label == "" || len(label) > maxLabel || label[0] == '-' {
			return fmt.Errorf("%s is not a host name: between dots stand 1 to %d characters, the first no hyphen", visible.Clip(name), maxLabel)
		}
		for _, c := range label {
			if c > 0x7f || !nameByte(byte(c)) {
				return fmt.Errorf("%s is not a host name: %q is no letter (a to z), digit, hyphen or underscore", visible.Clip(name), string(c))
			}
		}
	}
	return nil
}

// notZone keeps the zone of fe80::1%eth0, which netip does not look at, to interface names.
func notZone(r rune) bool { return r > 0x7f || !nameByte(byte(r)) && r != '.' }

func nameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

// parseSlots reads a number from 1 to MaxSlots; by Open MPI's rules 0 switches a host off.
func parseSlots(text string, d Dialect) (int, error) {
	switch text {
	case "":
		return 0, fmt.Errorf("the number of slots is missing")
	case "*", "auto":
		return 0, fmt.Errorf("slots %q: leave the number out to let the host's agent count", text)
	}
	n, err := strconv.Atoi(text)
	switch {
	case err != nil || text[0] == '+':
		return 0, fmt.Errorf("slots %s is not a number from 1 to %d", visible.Clip(text), MaxSlots)
	case n == 0 && d == OpenMPI:
	case n < 1:
		return 0, fmt.Errorf("%d slots; a host has at least 1, so leave out a host that is to run nothing", n)
	case n > MaxSlots:
		return 0, fmt.Errorf("%d slots are more than %d", n, MaxSlots)
	}
	return n, nil
}
