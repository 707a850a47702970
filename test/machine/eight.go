package machine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/topology/discover"
)

// Eight is a machine of 8 GPUs, 8 HCAs and 128 CPUs in two packages, a GPU and an HCA behind each
// switch: what measurements are made with.
func Eight(t testing.TB) discover.Files {
	t.Helper()
	var b strings.Builder
	b.WriteString("<system>")
	for pkg, affinity := range []string{"00000000,ffffffff,00000000,ffffffff", "ffffffff,00000000,ffffffff,00000000"} {
		fmt.Fprintf(&b, `<cpu numaid="%d" affinity="%s" vendor="GenuineIntel" familyid="6" modelid="143">`, pkg, affinity)
		for i := range 4 {
			bus := 0x80*pkg + 0x10*i + 0x10
			fmt.Fprintf(&b, `<pci busid="0000:%02x:00.0" class="0x060400" vendor="0x1000" device="0xc030" link_speed="32.0 GT/s PCIe" link_width="16">`+
				`<pci busid="0000:%02x:00.0" class="0x030200" vendor="0x10de" device="0x2330" link_speed="32.0 GT/s PCIe" link_width="16"/>`+
				`<pci busid="0000:%02x:00.0" class="0x020700" vendor="0x15b3" device="0x1021" link_speed="32.0 GT/s PCIe" link_width="16"/></pci>`, bus, bus+1, bus+2)
		}
		b.WriteString("</cpu>")
	}
	b.WriteString("</system>")
	files, err := NCCL([]byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return files
}
