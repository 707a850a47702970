package netns

import (
	"context"
	"fmt"
)

// nowhere is a MAC address that no host has: locally administered, as the kernel's own.
const nowhere = "02:00:00:00:de:ad"

// CutLink pulls the host's cable: nothing passes in either direction, and connections stay
// silent, until undo is called.
func (c *Cluster) CutLink(hostName string) (undo func() error, err error) {
	set := func(up bool) error {
		return c.on(hostName, func(h *host) error {
			// The bridge's end: the host's own keeps its address and routes.
			return c.sw.within(func() error { return setUp(h.port(), up) })
		})
	}
	if err := set(false); err != nil {
		return nil, err
	}
	return func() error { return set(true) }, nil
}

// CutOneWay loses every packet that from sends to to, while those of to still reach from,
// until undo is called. from has then a static neighbour entry with nobody's MAC address.
func (c *Cluster) CutOneWay(from, to string) (undo func() error, err error) {
	sender, err := c.host(from)
	if err != nil {
		return nil, err
	}
	receiver, err := c.host(to)
	if err != nil {
		return nil, err
	}
	var cut, mend string
	for _, a := range receiver.addresses() {
		cut += fmt.Sprintf("neigh replace %s lladdr %s nud permanent dev eth0\n", a, nowhere)
		mend += fmt.Sprintf("neigh del %s dev eth0\n", a)
	}
	apply := func(lines string) error {
		if err := c.ip(context.Background(), sender.ns, lines); err != nil {
			return fmt.Errorf("host %s: %w", from, err)
		}
		return nil
	}
	if err := apply(cut); err != nil {
		return nil, err
	}
	return func() error { return apply(mend) }, nil
}
