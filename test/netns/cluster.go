package netns

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Launcher is the name of the host that every cluster has besides its workers.
const Launcher = "launcher"

// Config describes a cluster. The zero value with Hosts is a cluster with /etc/hosts and IPv4.
type Config struct {
	// Hosts are the workers' host names, at most 4,000. A host named Launcher is added.
	Hosts []string
	// DNS gives names through an authoritative server ([Cluster.DNS]) instead of /etc/hosts,
	// with resolv.conf as kubelet writes it. All hosts have their records from the start.
	DNS bool
	// Domain is the domain of the hosts' names with DNS, without a final dot;
	// default "job.ns.svc.cluster.local".
	Domain string
	// Family says which addresses hosts have; default IPv4.
	Family Family
	// Share are directories under /tmp, /run, /root or /dev/shm that hosts see all the same,
	// such as a test's t.TempDir(). What lies elsewhere is shared anyway.
	Share []string
	// ReadOnlyRoot makes / read-only on the workers; /tmp, /run, /root and /dev/shm stay
	// writable, as mounted volumes would.
	ReadOnlyRoot bool
	// Scratch is the size of each of the directories that hosts have for themselves (/tmp, /run, /root, /dev/shm),
	// such as "64m"; default: half of the machine's memory.
	Scratch string
}

// Family is a choice of address families.
type Family int

// IPv4 and DualStack hosts have 10.77.0.0/16, DualStack and IPv6 hosts fd77::/64.
const (
	IPv4 Family = iota
	DualStack
	IPv6
)

func (c Config) validate() error {
	if os.Geteuid() != 0 {
		return errors.New("network namespaces need root")
	}
	if len(c.Hosts) > 4000 {
		return fmt.Errorf("%d hosts, at most 4000 are possible", len(c.Hosts))
	}
	for i, h := range c.Hosts {
		if h == "" || len(h) > 63 || strings.ContainsAny(h, "/. \t\n") {
			return fmt.Errorf("%q cannot be a host's name: a label of 1 to 63 letters", h)
		}
		if slices.Contains(c.Hosts[:i], h) {
			return fmt.Errorf("host %s is named twice", h)
		}
	}
	return nil
}

// Cluster is a set of hosts on one bridge.
type Cluster struct {
	cfg     Config
	state   *state
	sw      namespaces // the switch: only a network namespace
	hosts   []*host
	dns     *DNS
	dnsStop func() error

	mu       sync.Mutex
	forwards []*Forwarder // guarded by mu
	proxies  int          // guarded by mu: addresses given to forwarders
	closed   bool         // guarded by mu
}

// Up makes the hosts of cfg and boots them. The caller must Close the cluster. Its error names
// the host and the step.
func Up(ctx context.Context, cfg Config) (*Cluster, error) {
	if !slices.Contains(cfg.Hosts, Launcher) {
		cfg.Hosts = append(slices.Clone(cfg.Hosts), Launcher)
	}
	if cfg.Domain == "" {
		cfg.Domain = "job.ns.svc.cluster.local"
	}
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("test hosts: %w", err)
	}
	c := &Cluster{cfg: cfg}
	if err := c.up(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("test hosts: %w", err), c.Close())
	}
	return c, nil
}

func (c *Cluster) up(ctx context.Context) error {
	var err error
	if c.state, err = newState(); err != nil {
		return err
	}
	if err := makeRoomForNeighbours(len(c.cfg.Hosts)); err != nil {
		return err
	}
	for i, name := range c.cfg.Hosts {
		c.hosts = append(c.hosts, newHost(c, i, name))
	}
	if err := c.writeFiles(); err != nil {
		return err
	}
	if err := c.makeSwitch(); err != nil {
		return err
	}
	if err := c.each(ctx, (*host).isolate); err != nil {
		return err
	}
	if err := c.plug(ctx); err != nil {
		return err
	}
	if c.cfg.DNS {
		if err := c.startDNS(); err != nil {
			return err
		}
	}
	return c.each(ctx, func(h *host) error {
		if err := h.setUpNetwork(); err != nil {
			return err
		}
		return h.boot()
	})
}

// each calls f for all hosts, some at a time, and names the host in its error.
func (c *Cluster) each(ctx context.Context, f func(*host) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for _, h := range c.hosts {
		g.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err := f(h); err != nil {
				return fmt.Errorf("host %s: %w", h.name, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// Close ends every process on the hosts and removes all of the cluster. It may be called twice.
func (c *Cluster) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	forwards := c.forwards
	c.mu.Unlock()

	var errs []error
	for _, f := range forwards {
		errs = append(errs, f.Close())
	}
	if c.dnsStop != nil {
		errs = append(errs, c.dnsStop())
	}
	errs = append(errs, c.each(context.Background(), (*host).close))
	c.sw.close()
	if c.state != nil {
		errs = append(errs, c.state.remove())
	}
	return errors.Join(errs...)
}

// Workers are the hosts' names in order, without the launcher.
func (c *Cluster) Workers() []string {
	return slices.DeleteFunc(slices.Clone(c.cfg.Hosts), func(h string) bool { return h == Launcher })
}

// Addr is the host's address: IPv4 if it has one. An unknown host has the zero Addr.
func (c *Cluster) Addr(hostName string) netip.Addr {
	h, err := c.host(hostName)
	if err != nil {
		return netip.Addr{}
	}
	return h.addresses()[0]
}

// FQDN is the host's name with the cluster's domain.
func (c *Cluster) FQDN(hostName string) string { return hostName + "." + c.cfg.Domain }

// DNS is the cluster's name server, nil without Config.DNS.
func (c *Cluster) DNS() *DNS { return c.dns }

// Dir is a directory of the test process for the host's own files (hosts, resolv.conf); what a
// test writes into them shows on the host at once. They must be changed in place, not replaced.
func (c *Cluster) Dir(hostName string) string { return filepath.Join(c.state.dir, hostName) }

// SetHosts replaces the contents of the host's /etc/hosts, in place as kubelet does.
func (c *Cluster) SetHosts(hostName, text string) error {
	if _, err := c.host(hostName); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(c.Dir(hostName), "hosts"), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return fmt.Errorf("host %s: %w", hostName, err)
	}
	_, err = io.WriteString(f, text)
	return errors.Join(err, f.Close())
}

func (c *Cluster) host(name string) (*host, error) {
	for _, h := range c.hosts {
		if h.name == name {
			return h, nil
		}
	}
	return nil, fmt.Errorf("there is no host %q among %s", name, strings.Join(c.cfg.Hosts, " "))
}
