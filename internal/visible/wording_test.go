package visible

import "testing"

func TestWording(t *testing.T) {
	for got, want := range map[string]string{
		Count(0, "host"): "0 hosts", Count(1, "host"): "1 host", Count(2, "host"): "2 hosts",
		Colon("a\n"): ": a", Colon("") + ".": ".",
		Few(nil, 2, ", "): "", Few([]string{"a", "b"}, 2, ", "): "a, b", Few([]string{"a", "b", "c", "d"}, 2, ","): "a,b and 2 more",
		Short(nil, 9) + "!": "!", Short([]string{"a", "b", "c"}, 7): "a, b, c", Short([]string{"a", "b", "c"}, 6): "a, b and 1 more",
		Short([]string{"long-name", "b"}, 9): "long-name and 1 more", Short([]string{"longer-name", "b"}, 9): "longer... and 1 more", Short([]string{"longer-name"}, 9): "longer...",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
