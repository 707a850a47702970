package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"
)

// sshPorts are the ports that sshd would listen on: those of its command line, else those of its
// configuration, else 22, which nobody has asked for.
func sshPorts(l sshdLine, root string) (ports []int, asked bool) {
	if len(l.server.Ports) == 0 {
		l.server.Read(readSSHConfig(root + cmp.Or(l.config, "/etc/ssh/sshd_config")))
	}
	if len(l.server.Ports) == 0 {
		return []int{22}, false
	}
	return l.server.Ports, true
}

// doors are listeners at sshd's ports. They take connections and close them: probes of pods made
// for sshd ask there whether it is up, such as the tcpSocket probes at 2222 of MPI Operator's own
// examples.
type doors struct {
	listeners []net.Listener
	closed    chan struct{}
	serving   sync.WaitGroup
}

// openDoors listens on all interfaces. Ports that cannot be had are in the error; the others serve.
func openDoors(ports []int) (*doors, error) {
	d := &doors{closed: make(chan struct{})}
	var errs []error
	for _, port := range ports {
		l, err := net.Listen("tcp", ":"+strconv.Itoa(port))
		if err != nil {
			errs = append(errs, fmt.Errorf("probes of port %d will find nobody: %w", port, err))
			continue
		}
		d.listeners = append(d.listeners, l)
		d.serving.Go(func() { d.serve(l) })
	}
	return d, errors.Join(errs...)
}

func (d *doors) serve(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err == nil {
			conn.Close()
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		select { // out of descriptors, most likely
		case <-d.closed:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// close ends it and waits. A nil doors has nothing to end.
func (d *doors) close() {
	if d == nil {
		return
	}
	close(d.closed)
	for _, l := range d.listeners {
		l.Close()
	}
	d.serving.Wait()
}
