package machine

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/golden"
	"github.com/mpiup/mpiup/test/need"
	"github.com/mpiup/mpiup/topology/discover"
)

// TestNCCL: the corpus's GPU machines are what NCCL's files of them give, where those are at hand.
func TestNCCL(t *testing.T) {
	const from = "../../../shared/fixtures/nccl"
	need.File(t, "nccl", from, "put the files there")
	for _, tt := range []struct{ name, file, comment string }{
		{"h100", "azure-ndv5-8xh100.xml", "8 H100 and 8 InfiniBand ports, a pair behind each switch: Azure's ND H100 v5, from azhpc-images' file for NCCL."},
		{"mi300x", "rccl-8xmi300x.xml", "8 MI300X and 8 InfiniBand ports, a pair behind each switch, from a file for RCCL."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(from, tt.file))
			if err != nil {
				t.Fatal(err)
			}
			files, err := NCCL(text)
			if err != nil {
				t.Fatal(err)
			}
			got := discover.Format(tt.comment, files)
			golden.Is(t, "testdata/"+tt.name+".txtar", string(got))
		})
	}
}

// What the generator makes, without NCCL's files at hand.
func TestNCCLTree(t *testing.T) {
	files, err := NCCL([]byte(`<system version="1">
  <cpu numaid="0" affinity="00000033" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:05:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16" vendor="0x15b3" device="0x1979">
      <pci busid="0000:0c:00.0" class="0x120000" vendor="0x1002" device="0x74a1"><gpu dev="0"/></pci>
      <pci busid="0000:07:00.0" class="0x020700" vendor="0x15b3" device="0x1021"><nic><net name="mlx5_9" speed="200000"/></nic></pci>
    </pci>
  </cpu>
  <cpu numaid="1" affinity="000000cc">
    <pci busid="ffff:ff:01.0" class="0x060400"><pci busid="0001:00:00.0" class="0x030200"/></pci>
  </cpu>
</system>`))
	if err != nil {
		t.Fatal(err)
	}
	const bridge = "sys/devices/pci0000:05/0000:05:00.0/"
	for name, want := range map[string]string{
		"sys/devices/system/cpu/cpu4/topology/core_cpus":             "00000011\n",
		"sys/devices/system/cpu/cpu4/topology/package_cpus":          "00000033\n",
		"sys/devices/system/node/node1/distance":                     "21 10\n",
		bridge + "secondary_bus_number":                              "7\n",
		bridge + "subordinate_bus_number":                            "12\n",
		bridge + "0000:07:00.0/infiniband/mlx5_9/ports/1/rate":       "200 Gb/sec (4X NDR)\n",
		"sys/class/kfd/kfd/topology/nodes/2/properties":              "simd_count 1216\nlocation_id 3072\ndomain 0\ndrm_render_minor 128\n",
		"sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0/numa_node": "1\n",
		"sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0/vendor":    "0x10de\n",
	} {
		if got := string(files[name].Data); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if _, ok := files["dev/nvidia1"]; !ok {
		t.Error("GPU 1 has no device file")
	}
}

// Processors beyond the second, of a machine whose file has made up bridges, share no bus with the first ones.
func TestNCCLOfManyProcessors(t *testing.T) {
	text := "<system>"
	const processors = 8
	for i := range processors {
		text += fmt.Sprintf(`<cpu numaid="%d" affinity="%x">`, i, 1<<i)
		for k := range 4 {
			text += fmt.Sprintf(`<pci busid="ffff:ff:%02x.0" class="0x060400"><pci busid="%04x:00:00.0" class="0x030200"/></pci>`, k, 4*i+k+1)
		}
		text += "</cpu>"
	}
	files, err := NCCL([]byte(text + "</system>"))
	if err != nil {
		t.Fatal(err)
	}
	functions, buses := 0, map[string]bool{}
	for name, f := range files {
		if strings.HasPrefix(name, "sys/bus/pci/devices/") {
			functions++
		}
		if bus, ok := strings.CutSuffix(name, "/secondary_bus_number"); ok {
			domain := path.Base(bus)[:4]
			if key := domain + ":" + string(f.Data); buses[key] {
				t.Errorf("two bridges lead to %q", key)
			} else {
				buses[key] = true
			}
		}
	}
	if functions != processors*4*2 || len(buses) != processors*4 {
		t.Errorf("%d functions, %d buses", functions, len(buses))
	}
	if _, err := NCCL([]byte(`<system><cpu numaid="0" affinity="1"><pci busid="0000:01:00.0" class="0x030200"/><pci busid="0000:01:00.0" class="0x030200"/></cpu></system>`)); err == nil {
		t.Error("one address of two functions was taken")
	}
}
