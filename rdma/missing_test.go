package rdma_test

import (
	"strings"
	"testing"

	"github.com/mpiup/mpiup/rdma"
)

// RDMA that a machine has and a container cannot use is one sentence or two in one warning: what is missing, what to do,
// and what happens meanwhile.
func TestMissingFabric(t *testing.T) {
	hca := func(name, missing, denied, state string, ethernet bool) rdma.HCA {
		return rdma.HCA{Name: name, Kind: rdma.Verbs, Verbs: "uverbs0", Missing: missing, Denied: denied,
			Ports: []rdma.Port{{Number: 1, State: state, Ethernet: ethernet}}}
	}
	const file = "its device file /dev/infiniband/uverbs0 is not in this container: it was not requested of the RDMA device plugin"
	enough, little := rdma.Locked{Any: true}, rdma.Locked{Limit: 64 << 10}
	for _, tt := range []struct {
		name   string
		hcas   []rdma.HCA
		locked rdma.Locked
		wanted bool
		says   []string // one for each part of the warning
	}{
		{"nothing there", nil, little, false, nil},
		{"all well", []rdma.HCA{hca("mlx5_0", "", "", "ACTIVE", false)}, enough, true, nil},
		{"not granted", []rdma.HCA{hca("mlx5_0", "/dev/infiniband/uverbs0", file, "ACTIVE", false)}, enough, true, []string{"device plugin", "TCP, which is many times slower"}},
		{"an Ethernet card", []rdma.HCA{hca("mlx5_0", "/dev/infiniband/uverbs0", file, "ACTIVE", true)}, enough, false, []string{"device plugin"}},
		{"its port is down", []rdma.HCA{hca("mlx5_0", "", "port 1 is DOWN: check the cable, the switch and the subnet manager", "DOWN", false)}, enough, true,
			[]string{"mlx5_0 of this machine cannot be used: port 1 is DOWN: check the cable", "TCP, which is many times slower"}},
		{"little locked memory", []rdma.HCA{hca("mlx5_0", "", "", "ACTIVE", true)}, little, true, []string{"only 64 KiB of memory may be locked", "LimitMEMLOCK=infinity", "fail when they register buffers"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inv := rdma.Inventory{HCAs: tt.hcas}
			if inv.Wanted() != tt.wanted {
				t.Errorf("wanted: %v", inv.Wanted())
			}
			text := strings.Join(inv.Missing(tt.locked), "; ")
			if (text == "") != (tt.says == nil) {
				t.Errorf("says %q", text)
			}
			for _, part := range tt.says {
				if !strings.Contains(text, part) {
					t.Errorf("%q is not in %q", part, text)
				}
			}
		})
	}
}
