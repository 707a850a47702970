package rdma

import (
	"fmt"
	"strings"
)

// Fabric is what traffic between hosts should use (--fabric).
type Fabric string

// The fabrics. The zero Fabric is Auto.
const (
	Auto Fabric = "auto" // what the host has
	RDMA Fabric = "rdma" // a host without a usable HCA is an error
	TCP  Fabric = "tcp"  // no HCA is used
)

// ParseFabric reads the flag's value; "" is Auto.
func ParseFabric(text string) (Fabric, error) {
	switch f := Fabric(text); f {
	case "":
		return Auto, nil
	case Auto, RDMA, TCP:
		return f, nil
	}
	return "", fmt.Errorf("%.40q is not auto, rdma or tcp", text)
}

// NCCL is parts of NCCL that are switched on or off by name (--nccl p2p=off,ib=off), as variables.
type NCCL []Variable

// switches are the parts that can be named, and the variable that disables each.
var switches = []struct{ name, variable string }{
	{"p2p", "NCCL_P2P_DISABLE"}, // GPUs of a host reach each other's memory
	{"ib", "NCCL_IB_DISABLE"},   // HCAs
	{"shm", "NCCL_SHM_DISABLE"}, // shared memory between a host's ranks
}

// ParseNCCL reads the flag's value; "" switches nothing.
func ParseNCCL(text string) (list NCCL, err error) {
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		v, ok := map[string]string{"off": "1", "on": "0"}[value]
		variable := variableOf(name)
		if !ok || variable == "" {
			return nil, fmt.Errorf("%.40q: write p2p, ib or shm with =off or =on, separated by commas, as in p2p=off,ib=off", text)
		}
		list = append(list, Variable{Name: variable, Value: v, Why: "--nccl " + part})
	}
	return list, nil
}

func variableOf(name string) string {
	for _, s := range switches {
		if s.name == name {
			return s.variable
		}
	}
	return ""
}
