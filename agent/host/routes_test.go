package host

import (
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/cost"
	"golang.org/x/tools/txtar"
)

func TestDefaultRoutes(t *testing.T) {
	const head = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
	for _, tt := range []struct{ name, text, want string }{
		{"none", head, ""},
		{"lowest metric", head + "eth1 00000000 0163630A 0003 0 0 200 00000000 0 0 0\neth0 00000000 0163630A 0003 0 0 100 00000000 0 0 0\n", "eth0"},
		{"the first of two alike", head + "eth1 00000000 0163630A 0003 0 0 0 00000000 0 0 0\neth0 00000000 0163630A 0003 0 0 0 00000000 0 0 0\n", "eth1"},
		{"half of all addresses is no default", head + "tun0 00000000 00000000 0001 0 0 0 00000080 0 0 0\n", ""},
		{"not up", head + "eth0 00000000 0163630A 0002 0 0 0 00000000 0 0 0\n", ""},
		{"a rejected one", head + "* 00000000 00000000 0201 0 0 0 00000000 0 0 0\n", ""},
		{"a line that breaks off", head + "eth0 00000000 0163", ""},
	} {
		if got := defaultRoute4(tt.text); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	const any, via = "00000000000000000000000000000000", "fd9900000000000000000000000000fe"
	for _, tt := range []struct{ name, text, want string }{
		{"lowest metric", any + " 00 " + any + " 00 " + via + " 00000400 1 0 00000003 eth1\n" + any + " 00 " + any + " 00 " + via + " 00000064 1 0 00000003 eth0\n", "eth0"},
		{"the kernel's own", any + " 00 " + any + " 00 " + any + " ffffffff 1 0 00200200 lo\n", ""},
		{"a network of zeros", any + " 60 " + any + " 00 " + any + " 00000400 1 0 00000001 eth0\n", ""},
	} {
		if got := defaultRoute6(tt.text); got != tt.want {
			t.Errorf("IPv6, %s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// Whatever the files hold, the answer is a word of theirs.
func FuzzDefaultRoutes(f *testing.F) {
	for _, name := range []string{"multus", "ipv6"} {
		a, err := txtar.ParseFile("testdata/" + name + ".txtar")
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range a.Files {
			f.Add(string(file.Data))
		}
	}
	f.Add("eth0 00000000 0 0003 0 0 99999999999 00000000")
	f.Fuzz(func(t *testing.T, text string) {
		defer cost.Watch(t, cost.Parser, len(text))()
		for _, got := range []string{defaultRoute4(text), defaultRoute6(text)} {
			if got == "lo" || got != "" && (!strings.Contains(text, got) || len(strings.Fields(got)) != 1) {
				t.Errorf("%q is no interface of the file", got)
			}
		}
	})
}
