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
	DeviceUnknown    DeviceFault = iota
	GPUXid                       // an Xid of the GPU, its driver or its links
	GPUXidOfProgram              // one such as programs cause
	PortDown                     // it was active when the process started
	GPUMemoryErrors              // uncorrected errors of its memory that came since the process started
	GPUMemoryPending             // its memory is to be taken out of use, which was not so when the process started
	GPUMemoryFailed              // its memory could not be taken out of use, likewise
	GPUSlow                      // its hardware holds its clocks back
)

// Slow is reasons for which a GPU's hardware holds its clocks back, as bits.
type Slow uint8

// The bits.
const (
	SlowByHeat  Slow = 1 << iota // its temperature, or its memory's
	SlowByPower                  // the power supply's brake
	SlowByOther                  // the hardware's protection, for one of these two or another
)

// String is "heat, the power supply's brake".
func (s Slow) String() string {
	text := ""
	for bit, why := range []string{"heat", "the power supply's brake"} {
		if s&(1<<bit) != 0 {
			text += ", " + why
		}
	}
	if text == "" {
		return "its protection"
	}
	return text[2:]
}
