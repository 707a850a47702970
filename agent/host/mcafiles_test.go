package host

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/mpiup/mpiup/test/cost"
	"github.com/mpiup/mpiup/topology/sysfs"
)

func TestMCAFiles(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	files := sysfs.New(fstest.MapFS{
		"home/u/.openmpi/mca-params.conf":         file("# btl_tcp_if_include = eth9\n\nbtl_tcp_if_exclude = lo,docker0 # the bridge\nno parameter\n"),
		"etc/openmpi/openmpi-mca-params.conf":     file("btl_tcp_if_exclude=lo\nbtl_tcp_port_min_v4=18000\n= 5\n"),
		"opt/hpc/etc/openmpi-mca-params.conf":     file("pml = ucx"),
		"usr/local/etc/openmpi-mca-params.conf":   file("btl=self,tcp"),
		"etc/site/mca.conf":                       file("btl_tcp_links = 2\n" + strings.Repeat("x", maxMCAFile) + "\nbtl_late = 1\n"),
		"opt/openmpi/etc/openmpi-mca-params.conf": file("oob = tcp"),
	})
	for _, tt := range []struct {
		name string
		env  map[string]string
		want map[string]string // by parameter
	}{
		{"the distribution's", nil, map[string]string{"btl_tcp_if_exclude": "/etc/openmpi/openmpi-mca-params.conf",
			"btl_tcp_port_min_v4": "/etc/openmpi/openmpi-mca-params.conf", "oob": "/opt/openmpi/etc/openmpi-mca-params.conf"}},
		{"the home's first", map[string]string{"HOME": "/home/u", "OPAL_PREFIX": "/opt/hpc", "PATH": "/usr/local/bin:/bin::bin"}, map[string]string{
			"btl_tcp_if_exclude": "/home/u/.openmpi/mca-params.conf", "btl_tcp_port_min_v4": "/etc/openmpi/openmpi-mca-params.conf",
			"pml": "/opt/hpc/etc/openmpi-mca-params.conf", "btl": "/usr/local/etc/openmpi-mca-params.conf", "oob": "/opt/openmpi/etc/openmpi-mca-params.conf"}},
		{"named ones alone, the beginning of a long one", map[string]string{"HOME": "/home/u", "OMPI_MCA_mca_base_param_files": "/nowhere:/etc/site/mca.conf"},
			map[string]string{"btl_tcp_links": "/etc/site/mca.conf"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := MCAFiles(files, func(name string) string { return tt.env[name] })
			for param, name := range tt.want {
				if got["OMPI_MCA_"+param].File != name {
					t.Errorf("%s is set by %q, want %q", param, got["OMPI_MCA_"+param], name)
				}
			}
			for param, value := range map[string]string{"btl_tcp_port_min_v4": "18000", "pml": "ucx", "btl": "self,tcp"} {
				if p := got["OMPI_MCA_"+param]; p.File != "" && p.Value != value {
					t.Errorf("%s is %q, want %q", param, p.Value, value)
				}
			}
			if len(got) != len(tt.want) {
				t.Errorf("got %v", got)
			}
		})
	}
}

// Whatever a file of parameters holds, what is found of it is a variable of Open MPI's, without blanks around.
func FuzzMCAFiles(f *testing.F) {
	f.Add("btl=self,tcp # c\n a = b=c\n")
	f.Fuzz(func(t *testing.T, text string) {
		defer cost.Watch(t, cost.Parser, len(text))()
		files := sysfs.New(fstest.MapFS{"etc/openmpi/openmpi-mca-params.conf": {Data: []byte(text)}})
		for name, p := range MCAFiles(files, func(string) string { return "" }) {
			if name == "OMPI_MCA_" || strings.TrimSpace(name) != name || strings.TrimSpace(p.Value) != p.Value || p.File == "" {
				t.Errorf("%q: %+v", name, p)
			}
		}
	})
}
