// Package archtest holds the tests that keep the architecture true: which package may import
// which, where dangerous or heavy dependencies may stand, how large files get, and that the
// lists in docs/ are complete.
//
//	10 cmd/mpiup
//	9  launcher/{examine,peers}
//	8  launcher   agent              never each other: they meet in internal/api
//	5  launcher/run
//	7  agent/session
//	6  agent/exchange
//	5  agent/{ranks,ways}
//	4  launcher/reach   agent/outfit
//	3  launcher/{link,spawn,survey}   agent/{host,metrics}   cmd/mpiup/draw
//	2  launcher/{placement,cli,iof,quorum,kubectl}   agent/{port,reap,stdio,member,mpilib,mpinet}
//	   pmi, pmi/pmix, pmi/pmix/{modex,names}      internal/wire
//	1  pmi/{kvs,wire,lobby}, pmi/pmix/{jobdata,event,group,spawn}   gpu   rdma   topology/{discover,hwlocxml,usable}
//	   internal/{resolve,incarnation,api/codec,api/machine}   launcher/{doctor,hosts,streams,cli/mpirun/line,run/model}   agent/reap/{proctree,program,daemon}
//	0  topology   topology/sysfs   launcher/streams   internal/{job,binding,hostlist,identity,network,api}   pmi/pmix/{bfrops,ptl,status,leftover}   docs
//	-1 internal/{layout,typed,outfile,svg}
//	-2 internal/{idset,visible,wording,pattern,mounts,sockets,podfiles,awake}
//
// A package imports packages of lower levels, and those below its own directory. levels_test.go is
// the table, rules_test.go the single rules; each carries its reason, which the failing test prints.
// Tests and everything under test/ are free to import what they like.
//
// The package has no code but for tests, needs the go command, and looks at whole packages as
// "go list" describes them: build tags other than this machine's are not seen.
package archtest
