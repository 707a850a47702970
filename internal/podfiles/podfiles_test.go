package podfiles

import (
	"fmt"
	"testing"
)

func TestHosts(t *testing.T) {
	var got []string
	for addr, names := range Hosts("# kubelet\n127.0.0.1\tlocalhost\n10.0.0.7 w.sub.ns.svc.cluster.local w # it\nno-address w\n::1\n\nfe80::1 x") {
		got = append(got, fmt.Sprint(addr, names))
	}
	if want := "[127.0.0.1 [localhost] 10.0.0.7 [w.sub.ns.svc.cluster.local w] fe80::1 [x]]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
	for range Hosts("::1 a\n::2 b\n") {
		break
	}
}

func TestSearch(t *testing.T) {
	for text, want := range map[string]string{
		"": "[]", "search a b\nnameserver 10.0.0.10\nsearch c d\n": "[c d]", "searching a\nsearch\n": "[]",
	} {
		if got := fmt.Sprint(Search(text)); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
