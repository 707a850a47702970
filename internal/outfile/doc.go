// Package outfile makes the files that a run leaves in places to which its ranks, or others, may write too: a volume that all pods
// share, a /tmp. Whoever can write there can put a link, a pipe or a device where a file is about to be made.
//
//	a path that a user named ──Open──▶ Dir: the user's own, links and all, held open ──▶ Create, Replace below it
//	                         ──At────▶ File: the name itself, in a directory held open ──▶ Open, Write in place
//
//	                   a link       another name of a file   a pipe, a device
//	Dir.Create         refused      refused                  refused
//	Dir.Replace        replaced     left as it is            replaced
//	File               refused (1)  refused                  written to
//
// (1) but in /dev, /dev/fd and /proc/self/fd, where stdout is one. Nothing blocks on a pipe without a reader when it is opened, and no byte of
// a file changes before it is known what it is.
//
// A Dir and a File may be used by several goroutines. The package does not know whose a file is: who may write to a directory may read and
// change what is left there.
package outfile
