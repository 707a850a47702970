package hostlist

import "strings"

// FirstLabel is the pod's name in a host name.
func FirstLabel(host string) string {
	label, _, _ := strings.Cut(host, ".")
	if label == "" || strings.ContainsAny(label, ":") || label[0] >= '0' && label[0] <= '9' {
		return host
	}
	return label
}

// Commands that people copy hold names that others state: agents, files, logs. Only what is a host name stands in one, so that none
// holds a second command or an option.

// Pod is the pod of a host for a command; POD, for the reader to fill in, where the host's name is none.
func Pod(host string) string {
	if label := FirstLabel(host); CheckName(label) == nil {
		return label
	}
	return "POD"
}

// Cordon is the command that keeps jobs from a host's node; "" where there is no name for one.
func Cordon(node, host string) string {
	switch label := FirstLabel(host); {
	case CheckName(node) == nil:
		return "kubectl cordon " + node
	case node == "" && CheckName(label) == nil:
		return "kubectl cordon $(kubectl get pod " + label + " -o jsonpath='{.spec.nodeName}')"
	}
	return ""
}
