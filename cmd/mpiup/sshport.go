package main

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mpiup/mpiup/internal/bounded"
)

// sshPorts are the ports that sshd would listen on: those of its command line, else those of its
// configuration, else 22, which nobody has asked for.
func sshPorts(l sshdLine, root string) (ports []int, asked bool) {
	if len(l.ports) > 0 {
		return l.ports, true
	}
	file := l.config
	if file == "" {
		file = "/etc/ssh/sshd_config"
	}
	text, err := bounded.Regular(root+file, maxSSHConfig)
	if err != nil {
		return []int{22}, false
	}
	if ports = portsIn(string(text)); len(ports) == 0 {
		return []int{22}, false
	}
	return ports, true
}

// portsIn are the ports that the text of a configuration names, 16 at most.
func portsIn(text string) (ports []int) {
	for line := range strings.Lines(text) {
		words := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t\r\n=\"", r) }) // sshd_config(5)
		if len(words) < 2 || !strings.EqualFold(words[0], "port") {
			continue
		}
		if n, err := strconv.ParseUint(words[1], 10, 16); err == nil && n > 0 && len(ports) < 16 {
			ports = append(ports, int(n))
		}
	}
	return ports
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
