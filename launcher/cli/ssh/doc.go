// Package ssh is the command line of OpenSSH's client, as far as launchers and scripts use it:
//
//	ssh [options] [user@]host [options] [command words...]
//
// Options may stand before and after the host, as OpenSSH's own parser (ssh.c, getopt run twice)
// has it; the first word after them begins the command, and its words are joined by one blank
// each and given to the host's shell. Nothing is quoted or unquoted here.
//
// Every option is a row of one table with what it means here: done; accepted, since agents are
// found, secured and spoken to in another way; or refused, by name and with what to do instead.
// Unknown ones are refused as OpenSSH refuses them. PURE.
package ssh
