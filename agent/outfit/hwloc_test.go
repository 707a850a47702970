package outfit

import (
	"strings"
	"testing"
)

func TestHwlocVariables(t *testing.T) {
	for _, tt := range []struct{ name, path, set, want string }{
		{"a file", "/run/t.xml", "", "HWLOC_XMLFILE=/run/t.xml HWLOC_THISSYSTEM=1 HWLOC_THISSYSTEM_ALLOWED_RESOURCES=1"},
		{"no file", "", "", ""},
		{"the user's file", "/run/t.xml", "HWLOC_XMLFILE", ""},
		{"another system by the user", "/run/t.xml", "HWLOC_THISSYSTEM", ""},
		{"allowed by the user", "/run/t.xml", "HWLOC_THISSYSTEM_ALLOWED_RESOURCES", ""},
		{"another root by the user", "/run/t.xml", "HWLOC_FSROOT", ""},
		{"no machine at all", "/run/t.xml", "HWLOC_SYNTHETIC", ""},
		{"something else", "/run/t.xml", "HWLOC_HIDE_ERRORS", "HWLOC_XMLFILE=/run/t.xml HWLOC_THISSYSTEM=1 HWLOC_THISSYSTEM_ALLOWED_RESOURCES=1"},
	} {
		got := strings.Join(hwlocVariables(tt.path, false, func(name string) bool { return name == tt.set }), " ")
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
