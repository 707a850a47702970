package kubelet_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// told is a pod's status as text, without what differs from run to run: times, addresses, IDs, and the words of runtimes.
func told(p *corev1.Pod) string {
	s := &p.Status
	var b strings.Builder
	fmt.Fprintf(&b, "phase %s%s\n", s.Phase, because(s.Reason, s.Message))
	conditions := slices.Clone(s.Conditions)
	slices.SortFunc(conditions, func(a, b corev1.PodCondition) int { return strings.Compare(string(a.Type), string(b.Type)) })
	for _, c := range conditions {
		fmt.Fprintf(&b, "  %s %s%s\n", c.Type, c.Status, because(c.Reason, c.Message))
	}
	for _, part := range []struct {
		title string
		all   []corev1.ContainerStatus
	}{{"init ", s.InitContainerStatuses}, {"", s.ContainerStatuses}} {
		for _, c := range part.all {
			fmt.Fprintf(&b, "%scontainer %s %s", part.title, c.Name, condition(c.State))
			if c.Started != nil && *c.Started {
				b.WriteString(", started")
			}
			if c.Ready {
				b.WriteString(", ready")
			}
			if c.RestartCount > 0 {
				fmt.Fprintf(&b, ", restarts %d", c.RestartCount)
			}
			if c.RestartCount > 0 && c.State.Terminated == nil { // else the runtime may have tidied it up
				fmt.Fprintf(&b, ", last %s", condition(c.LastTerminationState))
			}
			b.WriteString("\n")
		}
	}
	for _, has := range []struct {
		what string
		is   bool
	}{{"a host's address", s.HostIP != ""}, {"an address", s.PodIP != ""}, {"a time of its start", s.StartTime != nil}} {
		if !has.is {
			fmt.Fprintf(&b, "without %s\n", has.what)
		}
	}
	return b.String()
}

func because(reason, message string) string {
	if message != "" {
		message = ": " + message
	}
	if reason != "" {
		reason = " " + reason
	}
	return reason + message
}

// condition is a container's state. What a container could not be made for is told in a runtime's words.
func condition(s corev1.ContainerState) string {
	switch {
	case s.Waiting != nil:
		return "waiting " + s.Waiting.Reason
	case s.Running != nil:
		return "running"
	case s.Terminated != nil:
		t := s.Terminated
		out := fmt.Sprintf("terminated %s %d", t.Reason, t.ExitCode)
		if t.Signal != 0 {
			out += fmt.Sprintf(" signal %d", t.Signal)
		}
		if t.Message != "" && (t.Reason == "Error" || t.Reason == "Completed") {
			out += fmt.Sprintf(" %q", t.Message)
		}
		return out
	}
	return "unknown"
}

// known names what differs from run to run in what a pod wrote.
func known(p *corev1.Pod, output string) string {
	names := map[string]string{p.Spec.NodeName: "NODE", string(p.UID): "UID", p.Status.HostIP: "HOST-IP"}
	for _, ip := range p.Status.PodIPs {
		names[ip.IP] = "POD-IP"
	}
	delete(names, "")
	var pairs []string
	for _, what := range slices.SortedFunc(maps.Keys(names), func(a, b string) int { return len(b) - len(a) }) { // 10.0.0.1 begins 10.0.0.12
		pairs = append(pairs, what, names[what])
	}
	return strings.NewReplacer(pairs...).Replace(output)
}
