package mpilib

import "time"

// Limits of one look.
const (
	maxFiles     = 2000            // paths asked for
	maxOpen      = 400             // files opened
	maxBytes     = 64 << 20        // read in all
	maxDepth     = 12              // commands within commands
	maxCommands  = 64              // looked at, of wrappers and scripts
	maxArgs      = 64              // of a command that are looked at
	maxObjects   = 128             // ELF files of one program
	maxScript    = 64 << 10        // bytes of a script
	maxSteps     = 4 << 20         // bytes of scripts that are read, and of words, paths and environments that are made
	maxPath      = 4096            // bytes of a path (PATH_MAX of Linux)
	maxRemember  = 128             // choices in a Memory
	lookDeadline = 2 * time.Second // for a file system to answer
)
