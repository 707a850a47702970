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
