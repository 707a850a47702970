//go:build !cgo

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "mpiup-nvml: built without cgo, by which NVIDIA's library is called; build with CGO_ENABLED=1 and a C compiler")
	os.Exit(2)
}
