package gpu

import (
	"strconv"

	"github.com/mpiup/mpiup/topology"
)

// Between is how two GPUs are joined, as nvidia-smi topo -m words it: "X" of one and itself, "NV18"
// (18 NVLinks), "XGMI", else the distance over PCI.
func (g *GPU) Between(other *GPU) string {
	if g == other || g.Located() && g.At == other.At && g.Minor == other.Minor {
		return topology.Same.String()
	}
	for _, l := range g.Links {
		switch {
		case l.To != other.At:
		case l.Kind == NVLink:
			return string(NVLink) + strconv.Itoa(l.Count)
		default:
			return string(l.Kind)
		}
	}
	return g.Path.To(other.Path).String()
}
