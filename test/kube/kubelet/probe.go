package kubelet

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// probe keeps the pod's Ready condition until ctx ends. Without a probe a container is ready as
// it runs.
func (p *pod) probe(ctx context.Context, spec *corev1.Container) {
	is := false
	set := func(ready bool) {
		if ctx.Err() == nil {
			is = ready
			_ = p.tell(func(s *standing) { s.of(spec.Name).Ready = ready })
		}
	}
	probe := spec.ReadinessProbe
	if probe == nil || !p.pause(ctx, int(probe.InitialDelaySeconds)) {
		return
	}
	period, threshold := or(int(probe.PeriodSeconds), 10), or(int(probe.FailureThreshold), 3)
	for failures := 0; ctx.Err() == nil; {
		// Ten times as long as asked for: a slow machine of the test is no fault of the pod.
		once, cancel := context.WithTimeout(ctx, 10*time.Duration(or(int(probe.TimeoutSeconds), 1))*time.Second)
		err := p.ask(once, spec, probe)
		cancel()
		if err == nil {
			failures = 0
		} else {
			failures++
		}
		if ready := err == nil; ready != is && (ready || failures >= threshold) {
			set(ready)
		}
		if !p.pause(ctx, period) {
			return
		}
	}
}

func or(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

// ask makes one probe.
func (p *pod) ask(ctx context.Context, c *corev1.Container, probe *corev1.Probe) error {
	switch {
	case probe.Exec != nil:
		out, code, err := p.exec(ctx, probe.Exec.Command...)
		if err == nil && code != 0 {
			err = fmt.Errorf("exit code %d: %s", code, strings.TrimSpace(out))
		}
		return err
	case probe.TCPSocket != nil:
		conn, err := p.dial(ctx, probe.TCPSocket.Host, number(c, probe.TCPSocket.Port))
		if err != nil {
			return err
		}
		return conn.Close()
	case probe.HTTPGet != nil:
		return p.get(ctx, c, probe.HTTPGet)
	}
	return notPlayed("this probe")
}

// number is a port of a probe, which may be one of the container's by its name (pkg/probe/util.go, ResolveContainerPort).
func number(c *corev1.Container, port intstr.IntOrString) string {
	for _, p := range c.Ports {
		if port.Type == intstr.String && p.Name == port.StrVal {
			return strconv.Itoa(int(p.ContainerPort))
		}
	}
	return port.String()
}

// dial connects from the node, where kubelet is.
func (p *pod) dial(ctx context.Context, host, port string) (net.Conn, error) {
	if host == "" {
		host = p.ips[0].String()
	}
	return p.k.cfg.Hosts.Dial(ctx, p.k.cfg.Node, "tcp", net.JoinHostPort(host, port))
}

func (p *pod) get(ctx context.Context, c *corev1.Container, ask *corev1.HTTPGetAction) error {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return p.dial(ctx, ask.Host, number(c, ask.Port))
		}}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://pod"+ask.Path, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode < 200 || answer.StatusCode >= 400 {
		return fmt.Errorf("HTTP status %s", answer.Status)
	}
	return nil
}
