package netns

import (
	"context"
	"fmt"
	"net"
)

// Dial connects from a host, by the test process itself: a stranger's or a broken client's
// view. address holds a literal IP, as names are the test process's to resolve.
func (c *Cluster) Dial(ctx context.Context, from, network, address string) (conn net.Conn, err error) {
	err = c.on(from, func(h *host) error {
		conn, err = namespaces{net: h.ns.net}.dial(ctx, network, address)
		return err
	})
	return conn, err
}

// Listen listens on a host, by the test process itself. address holds a literal IP.
func (c *Cluster) Listen(hostName, network, address string) (l net.Listener, err error) {
	err = c.on(hostName, func(h *host) error {
		l, err = namespaces{net: h.ns.net}.listen(network, address)
		return err
	})
	return l, err
}

// A socket belongs to the namespace of the thread that makes it, for good; package net makes
// sockets for literal addresses in the calling goroutine.
func (ns namespaces) dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	if err := literal(address); err != nil {
		return nil, err
	}
	err = ns.within(func() error {
		conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

func (ns namespaces) listen(network, address string) (l net.Listener, err error) {
	if err := literal(address); err != nil {
		return nil, err
	}
	err = ns.within(func() error {
		l, err = net.Listen(network, address)
		return err
	})
	return l, err
}

func (ns namespaces) listenPacket(network, address string) (pc net.PacketConn, err error) {
	if err := literal(address); err != nil {
		return nil, err
	}
	err = ns.within(func() error {
		pc, err = net.ListenPacket(network, address)
		return err
	})
	return pc, err
}

func literal(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err == nil && host != "" && net.ParseIP(host) == nil {
		err = fmt.Errorf("%s is not a literal address", host)
	}
	return err
}
