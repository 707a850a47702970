package job

import (
	"strings"
	"testing"
)

func TestNetworks(t *testing.T) {
	for _, tt := range []struct {
		text, want string
		err        string // part of it; "": none
	}{
		{"", "", ""},
		{"net1", "net1", ""},
		{"eth0.100", "eth0.100", ""},
		{"10.98.0.0/16", "10.98.0.0/16", ""},
		{"10.98.3.4/16", "10.98.0.0/16", ""},
		{"fd98::1/64", "fd98::/64", ""},
		{"10.98.3.4", "", "such as 10.98.0.0/16"},
		{"fd98::1", "", "such as fd98::/64"},
		{"fe80::1%eth0", "", "such as fe80::/64"},
		{"10.98.0.0/33", "", "is no network"},
		{"net/1", "", "is no network"},
		{"eth0,net1", "", "no interface's name"},
		{"mlx5_0:1", "", "no interface's name"},
		{"a name", "", "no interface's name"},
		{"..", "", "no interface's name"},
		{"sixteen-letters-", "", "no interface's name"},
	} {
		got, err := ParseNetwork(tt.text)
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%q: error %v, want %q", tt.text, err, tt.err)
			continue
		}
		if err == nil && got.String() != tt.want || err == nil && got.IsZero() != (tt.want == "") {
			t.Errorf("%q is read as %q, want %q", tt.text, got, tt.want)
		}
	}
}

func TestPorts(t *testing.T) {
	for _, tt := range []struct {
		text string
		len  int
		err  string
	}{
		{"", 0, ""},
		{"18000-18999", 1000, ""},
		{"65535-65535", 1, ""},
		{"1024-65535", 64512, ""},
		{"18999-18000", 0, "ends before it begins"},
		{"80-90", 0, "below 1024"},
		{"18000", 0, "no range"},
		{"18000-", 0, "no range"},
		{"18000-70000", 0, "no range"},
		{"18000:18999", 0, "no range"},
		{"+18000-18999", 0, "no range"},
	} {
		got, err := ParsePorts(tt.text)
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%q: error %v, want %q", tt.text, err, tt.err)
			continue
		}
		if err == nil && (got.Len() != tt.len || got.String() != tt.text) {
			t.Errorf("%q is %d ports, %q; want %d", tt.text, got.Len(), got, tt.len)
		}
	}
}
