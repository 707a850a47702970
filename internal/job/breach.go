package job

// Breach is how a process broke with the server of its PMI, which killed it for that.
type Breach uint8

// The breaches, with the numbers that they have in frames.
const (
	NoBreach      Breach = iota
	BreachPMI            // it sent what no client of PMI-1 and PMI-2 sends
	BreachPMIx           // it sent what no client of PMIx sends
	BreachVersion        // its libpmix is one that the agent cannot serve
)

// Stranding is why a process cannot go on with the others.
type Stranding uint8

// The reasons, with the numbers that they have in frames.
const (
	Stranded          Stranding = iota // it waits for others that will not come
	StrandedByLimit                    // a fence carries more than is possible
	StrandedByLeaving                  // it has ended its own connection after MPI_Init
)

// Lack is what a host has too little of for MPI to begin.
type Lack uint8

// The lacks, with the numbers that they have in frames.
const (
	LackNothing Lack = iota
	LackShm          // /dev/shm
	LackTemp         // room for temporary files, or the right to write them
)

// DeviceFault is what went wrong with a device that a process had.
type DeviceFault uint8

// The faults, with the numbers that they have in frames.
const (
	DeviceUnknown   DeviceFault = iota
	GPUXid                      // an Xid of the GPU, its driver or its links
	GPUXidOfProgram             // one such as programs cause
	PortDown                    // it was active when the process started
)
