package ways

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/internal/awake"
)

// Way is what was found of the way to a host.
type Way struct {
	RTT  time.Duration // median round trip of one byte
	Rate float64       // bytes a second in one direction; 0: not measured
	MTU  int           // of the path as the kernel knows it, in bytes; 0: unknown
}

// ErrLarge says that small packets pass and large ones do not.
var ErrLarge = errors.New("small packets pass and large ones do not: the MTU of an interface is larger than what the network between carries")

// askWay measures the way to a Server, its rate too if asked. An error says what does not pass.
func askWay(ctx context.Context, to netip.AddrPort, token Token, rate bool) (Way, error) {
	var w Way
	c, err := connect(ctx, to, token, kindEcho)
	if err != nil {
		return w, err
	}
	defer c.Close()
	w.MTU = pathMTU(c, to)
	if w.RTT, err = roundTrip(c); err != nil {
		return w, fmt.Errorf("it accepts connections and does not answer: %w", err)
	}
	if err := large(c); err != nil {
		return w, err
	}
	if rate {
		w.Rate, err = measure(ctx, to, token)
	}
	return w, err
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

func connect(ctx context.Context, to netip.AddrPort, token Token, kind byte) (*net.TCPConn, error) {
	ctx, cancel := awake.Within(ctx, connectTime)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", to.String())
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, plain(err)
	}
	lift := awake.Until(c.SetDeadline, answerTime)
	_, err = c.Write(append(token[:], kind))
	if late := lift(); err == nil {
		err = late
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

// plain is the cause in the words of this tool's user.
func plain(err error) error {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.New("connection refused: something on the way or the host's firewall rejects the port")
	case isTimeout(err), errors.Is(err, context.DeadlineExceeded):
		return errors.New("no answer: packets to the port are dropped, by a firewall or network policy most likely")
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return errors.New("no route")
	}
	return err
}

// roundTrip is the median of as many turns as pass in their time. Each has that time for its answer: on busy hosts all of them take longer.
func roundTrip(c net.Conn) (time.Duration, error) {
	var all []time.Duration
	for spent := time.Duration(0); len(all) < smallTurns && spent < answerTime; {
		took, err := turn(c)
		if err != nil {
			return 0, err
		}
		all, spent = append(all, took), spent+took
	}
	slices.Sort(all)
	return all[len(all)/2], nil
}

func turn(c net.Conn) (time.Duration, error) {
	defer awake.Until(c.SetDeadline, answerTime)()
	begun, b := time.Now(), make([]byte, 1)
	_, err := c.Write(b)
	if err == nil {
		_, err = io.ReadFull(c, b)
	}
	return time.Since(begun), err
}

// large sends what needs packets of full size, both ways: ErrLarge when they do not come back in time. Writing
// beside reading keeps both buffers moving.
func large(c net.Conn) error {
	defer awake.Until(c.SetDeadline, answerTime)()
	sent := make(chan error, 1)
	go func() {
		_, err := c.Write(make([]byte, largeBlock))
		sent <- err
	}()
	_, err := io.ReadFull(c, make([]byte, largeBlock))
	if err = errors.Join(<-sent, err); isTimeout(err) {
		return ErrLarge
	}
	return err
}

// measure sends for a while; what counts is what arrived.
func measure(ctx context.Context, to netip.AddrPort, token Token) (float64, error) {
	c, err := connect(ctx, to, token, kindSink)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	begun := time.Now()
	defer awake.Until(c.SetDeadline, sinkTime+answerTime)()
	block := make([]byte, 256<<10)
	for time.Since(begun) < sinkTime {
		if _, err := c.Write(block); err != nil {
			return 0, err
		}
	}
	if err := c.CloseWrite(); err != nil {
		return 0, err
	}
	var answer [8]byte
	if _, err := io.ReadFull(c, answer[:]); err != nil {
		return 0, err
	}
	return float64(binary.BigEndian.Uint64(answer[:])) / time.Since(begun).Seconds(), nil
}

// pathMTU is ip(7)'s IP_MTU and ipv6(7)'s IPV6_MTU, 0 where the kernel does not say.
func pathMTU(c *net.TCPConn, to netip.AddrPort) (mtu int) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	level, option := unix.IPPROTO_IP, unix.IP_MTU
	if to.Addr().Unmap().Is6() {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_MTU
	}
	raw.Control(func(fd uintptr) {
		if n, err := unix.GetsockoptInt(int(fd), level, option); err == nil {
			mtu = n
		}
	})
	return mtu
}
