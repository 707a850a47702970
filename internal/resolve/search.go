package resolve

import (
	"bytes"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// conf is what resolv.conf(5) says.
type conf struct {
	servers  []string // host:53
	search   []string // without dots at the ends
	ndots    int
	timeout  time.Duration // of one try
	attempts int
	tcp      bool   // options use-vc
	cluster  string // domain of the cluster, from the search line; "" if it names none
}

// Limits of the C library (resolv.h: MAXNS, RES_MAXNDOTS, RES_MAXRETRY), and of Kubernetes for
// the search list (32).
const (
	maxServers  = 3
	maxSearch   = 32
	maxNdots    = 15
	maxAttempts = 5
	tryTimeout  = 2 * time.Second
)

// confFile is /etc/resolv.conf.
type confFile struct {
	path string

	mu    sync.Mutex
	state watched // guarded by mu
	conf  *conf   // guarded by mu; never changed once made
}

func (f *confFile) get() *conf {
	f.mu.Lock()
	defer f.mu.Unlock()
	if text, changed := f.state.read(f.path); changed || f.conf == nil {
		f.conf = parseConf(text)
	}
	return f.conf
}

// parseConf reads resolv.conf(5). What it does not know it passes over. Without a nameserver
// line the server is 127.0.0.1, as in the C library.
func parseConf(text []byte) *conf {
	c := &conf{ndots: 1, timeout: tryTimeout, attempts: 2}
	for line := range bytes.Lines(text) {
		if i := bytes.IndexAny(line, "#;"); i >= 0 {
			line = line[:i]
		}
		fields := strings.Fields(string(line))
		if len(fields) < 2 {
			continue
		}
		switch args := fields[1:]; fields[0] {
		case "nameserver":
			if a, err := netip.ParseAddr(args[0]); err == nil && len(c.servers) < maxServers {
				c.servers = append(c.servers, net.JoinHostPort(a.String(), "53"))
			}
		case "domain", "search": // the last one counts
			c.search = nil
			for _, d := range args {
				if d = strings.Trim(d, "."); validName(d) && len(c.search) < maxSearch {
					c.search = append(c.search, d)
				}
			}
		case "options":
			c.options(args)
		}
	}
	if len(c.servers) == 0 {
		c.servers = []string{"127.0.0.1:53"}
	}
	c.cluster = clusterDomain(c.search)
	return c
}

func (c *conf) options(args []string) {
	for _, o := range args {
		name, value, _ := strings.Cut(o, ":")
		n, err := strconv.Atoi(value)
		switch {
		case name == "use-vc":
			c.tcp = true
		case err != nil || n < 0:
		case name == "ndots":
			c.ndots = min(n, maxNdots)
		case name == "timeout" && n > 0:
			c.timeout = min(time.Duration(min(n, 30))*time.Second, tryTimeout)
		case name == "attempts" && n > 0:
			c.attempts = min(n, maxAttempts)
		}
	}
}

// clusterDomain finds the cluster's domain in a search list. kubelet writes "NS.svc.DOMAIN",
// "svc.DOMAIN", "DOMAIN"; operators add "JOB.NS.svc.cluster.local" behind it, with a domain
// that may be wrong (kubernetes-contract A.2), so the entry that begins with "svc." decides.
func clusterDomain(search []string) string {
	for _, s := range search {
		if d, ok := strings.CutPrefix(s, "svc."); ok {
			return d
		}
	}
	for _, s := range search {
		if _, d, ok := strings.Cut(s, ".svc."); ok {
			return d
		}
	}
	return ""
}

// within is c with what kubelet writes into a search list, where c has no cluster's domain, as with dnsPolicy None: domain, the pod's own, has the
// same ("JOB.NS.svc.DOMAIN", from /etc/hosts). Those names come behind c's own.
func (c *conf) within(domain string) *conf {
	own, cluster, found := strings.Cut(domain, ".svc.")
	if c.cluster != "" || !found || !validName(domain) {
		return c
	}
	filled := *c
	filled.cluster = cluster
	filled.search = slices.Clone(c.search)
	if _, namespace, found := strings.Cut(own, "."); found {
		filled.search = append(filled.search, namespace+".svc."+cluster)
	}
	filled.search = append(filled.search, "svc."+cluster, cluster)
	return &filled
}

// complete gives the absolute form, without the last dot, of a service name that lacks the cluster's domain. It gives
// "" for other names, and if the domain is not known.
func (c *conf) complete(name string) string {
	if c.cluster == "" || !strings.HasSuffix(strings.ToLower(name), ".svc") {
		return ""
	}
	return name + "." + c.cluster
}

// candidates lists the absolute names to ask for, in order, without the last dot. siblings is where names of one label are
// asked for first; "": nowhere.
func (c *conf) candidates(name, siblings string) []string {
	if abs, ok := strings.CutSuffix(name, "."); ok {
		return []string{abs}
	}
	if full := c.complete(name); full != "" {
		return []string{full}
	}
	if c.cluster != "" && strings.HasSuffix(strings.ToLower(name), ".svc."+strings.ToLower(c.cluster)) {
		return []string{name}
	}
	var walk []string
	search := c.search
	if siblings != "" && !strings.Contains(name, ".") {
		if full := c.complete(siblings); full != "" {
			siblings = full
		}
		search = append([]string{siblings}, search...)
	}
	for _, s := range search {
		if full := name + "." + s; len(full) <= 253 {
			walk = append(walk, full)
		}
	}
	service := strings.HasSuffix(strings.ToLower(name), ".svc") || strings.Contains(strings.ToLower(name), ".svc.")
	if service || strings.Count(name, ".") >= c.ndots {
		return append([]string{name}, walk...)
	}
	return append(walk, name)
}
