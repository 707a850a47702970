package rdma

import (
	"fmt"
	"strings"
)

// Wish is what the user said of the way between hosts. The zero value leaves it to each host.
type Wish struct {
	Fabric  Fabric
	NCCL    NCCL
	NoHints bool // libraries try transports that cannot work on a host, too
}

// Fabric is what traffic between hosts should use (--fabric). The zero value is Auto, unsaid.
type Fabric string

// The fabrics.
const (
	Auto Fabric = "auto" // what the host has
	RDMA Fabric = "rdma" // a host without a usable HCA is an error
	TCP  Fabric = "tcp"  // no HCA is used
)

// ParseFabric reads the flag's value; "" is the zero value.
func ParseFabric(text string) (Fabric, error) {
	switch f := Fabric(text); f {
	case "", Auto, RDMA, TCP:
		return f, nil
	}
	return "", fmt.Errorf("%.40q is not auto, rdma or tcp", text)
}

// NCCL is parts of NCCL that are switched on or off by name (--nccl p2p=off,ib=off).
type NCCL []Switch

// Switch is one part.
type Switch struct {
	Part string // of disabling
	Off  bool
}

// disabling is the variable that disables each part that can be named.
var disabling = map[string]string{
	"p2p": "NCCL_P2P_DISABLE", // GPUs of a host reach each other's memory
	"ib":  "NCCL_IB_DISABLE",  // HCAs
	"shm": "NCCL_SHM_DISABLE", // shared memory between a host's ranks
}

// ParseNCCL reads the flag's value; "" switches nothing.
func ParseNCCL(text string) (list NCCL, err error) {
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		if disabling[name] == "" || value != "off" && value != "on" {
			return nil, fmt.Errorf("%.40q: write p2p, ib or shm with =off or =on, separated by commas, as in p2p=off,ib=off", text)
		}
		list = append(list, Switch{name, value == "off"})
	}
	return list, nil
}

// String is what ParseNCCL reads.
func (n NCCL) String() string {
	parts := make([]string, len(n))
	for i, s := range n {
		parts[i] = s.String()
	}
	return strings.Join(parts, ",")
}

func (s Switch) String() string {
	if s.Off {
		return s.Part + "=off"
	}
	return s.Part + "=on"
}

// Variables are what NCCL reads.
func (n NCCL) Variables() (list []Variable) {
	for _, s := range n {
		value := "0"
		if s.Off {
			value = "1"
		}
		list = append(list, Variable{Name: disabling[s.Part], Value: value, Why: "--nccl " + s.String()})
	}
	return list
}
