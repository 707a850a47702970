package codec

// rule is what a field of an agent's may hold.
type rule struct {
	text int  // bytes of text; 0: it is no text
	most int  // items of a list; 0: as many as the message has room for
	data bool // whoever takes it apart bounds it: sets of ranks (idset), keys and values (pmi/kvs), programs that ranks spawn, proofs
}

// Bounds of text, in bytes.
const (
	nameText = 255  // a host's, as DNS bounds it; a user's, a program's, a device's
	wordText = 200  // a version, a state, a function
	lineText = 4096 // a sentence, a path
)

var (
	aName = rule{text: nameText}
	aWord = rule{text: wordText}
	aLine = rule{text: lineText}
	asIs  = rule{data: true}
)

func names(most int) rule { return rule{text: nameText, most: most} }
func lines(most int) rule { return rule{text: lineText, most: most} }
func items(most int) rule { return rule{most: most} }

// rules are by message and field.
var rules = map[string]rule{
	// Who it is.
	"Opened.text": aLine, "Opened.version": aWord, "Opened.meeting_ports": items(64), "Opened.own_proof": asIs, "Opened.held": items(64),
	"Opened.left": names(1 << 16), "Opened.lacks": items(64),
	"Held.session": aWord, "Held.launcher": aName, "Hold.journal": asIs, "Hold.proof": asIs, "Hold.command": asIs, "Hold.text": aLine, "Hold.withdrawn": aLine,
	"Machine.cpu": asIs, "Machine.core": asIs, "Machine.l1": asIs, "Machine.l2": asIs, "Machine.l3": asIs, "Machine.numa": asIs, "Machine.package": asIs,
	"HelloReply.version": aWord, "HelloReply.name": aName, "HelloReply.incarnation": aWord, "HelloReply.scope": aLine, "HelloReply.arch": aWord,
	"HelloReply.address": aName, "HelloReply.digest": aWord, "HelloReply.uses": items(32), "HelloReply.gpu_units": items(1024), "HelloReply.node": aName,
	"Use.launcher": aName, "Use.program": aName,
	"GpuUnit.vendor": aWord, "GpuUnit.uuid": aWord, "GpuUnit.pci": aWord, "GpuUnit.model": aWord, "GpuUnit.near_cpus": aLine,
	"PeersReply.peers": items(1 << 17), "Peer.name": aName, "Peer.address": aName, "Peer.incarnation": aWord, "Peer.state": aWord, "Peer.version": aWord,
	"Peer.digest": aWord,

	// A job.
	"StartFailed.path": aLine, "StartFailed.text": aLine, "StartFailed.search": aLine, "StartFailed.venv": aLine,
	"Output.data": asIs, "OutputEnd.frames": {text: wordText, most: 16}, "OutputEnd.devices": items(8), "OutputEnd.placed": items(16),
	"Placed.frame": aWord, "Placed.place": aWord,
	"Exited.text": aLine, "Exited.library": aLine, "Exited.lacking": aLine, "Exited.path": aLine, "Exited.venv": aLine,
	"ContainerMemory.victims": items(8), "MemoryVictim.name": aWord,
	"Exited.devices": items(8), "DeviceError.device": aWord, "Aborted.text": aLine, "Aborted.targets": asIs, "WireupFailed.text": aLine,
	"WireupFailed.gone": asIs, "Notice.text": aLine, "Ending.why": aLine, "Closed.text": aLine,
	"Chosen.library": aLine, "Chosen.why": aLine, "Chosen.nccl": aWord, "Control.targets": asIs,
	"Waits.silent": asIs, "Waits.waits": items(16), "Waits.stacks": items(16), "Waits.notes": lines(8), "Waits.files": items(4), "Wait.set": asIs, "Wait.entered": asIs,
	"Wait.absent":     asIs,
	"ProcStack.means": aWord, "ProcStack.frames": {text: wordText, most: 64},
	"Met.framework": aWord, "Met.loaded": asIs, "Met.met": asIs, "Met.elsewhere": asIs,
	"Activity.works": asIs, "Activity.busy": asIs, "Activity.idle": asIs, "Activity.places": items(16),
	"Progress.data": asIs, "Place.ids": asIs, "Place.where": aWord, "Waited.ranks": items(4096), "RankWaited.points": items(64), "RankWaited.call": aWord,
	"Flight.groups": items(64), "Flight.dump": asIs, "FlightGroup.name": aWord, "FlightGroup.what": aWord, "FlightGroup.ranks": asIs, "FlightGroup.ops": items(5),
	"FlightGroup.calls": items(64),
	"FlightOp.name":     aWord, "FlightOp.shape": aWord, "FlightOp.where": aWord,
	"Resumed.dropped": items(1 << 20), "Resumed.fences": asIs,
	"SpawnRequest.apps": asIs, "SpawnRequest.preput": asIs, "KeyValue.key": asIs, "KeyValue.value": asIs, "SpawnApp.hosts": asIs, "SpawnApp.add_hosts": asIs,
	"SpawnApp.hostfile": asIs, "SpawnApp.add_hostfile": asIs, "SpawnApp.map_by": asIs, "App.argv": asIs, "App.env": asIs, "App.wdir": asIs, "App.path": asIs,
	"App.tools": asIs, "Tool.argv": asIs, "Tool.ranks": asIs,

	// Of ranks for ranks.
	"FenceEnter.set": asIs, "FenceEnter.data": asIs, "FetchRequest.key": asIs, "FetchRequest.not": asIs, "FetchResult.value": asIs, "FetchResult.error": asIs,
	"Event.data": asIs, "NameRequest.service": asIs, "NameRequest.value": asIs, "NameRequest.services": asIs,
	"Rendezvous.scope": asIs, "Rendezvous.key": asIs, "Rendezvous.value": asIs,

	// What it finds.
	"CheckupReply.findings": items(256), "CheckupReply.facts": items(256), "CheckupReply.addresses": names(256), "CheckupReply.programs": items(256),
	"CheckupReply.rdma": items(256), "ProgramFile.name": asIs, "ProgramFile.path": asIs, "RdmaPort.device": aName, "Finding.name": aWord, "Finding.text": aLine, "Finding.fix": aLine, "Fact.name": aWord,
	"Fact.value": aLine,
	"Seats.gpus": items(1024), "Seats.hcas": items(1024), "Seats.seats": items(1 << 16), "Seats.error": aLine, "SeatDevice.name": aWord, "SeatDevice.text": aLine,
	"SeatDevice.near_cpus": aLine, "SeatDevice.missing": aLine, "Seat.gpus": asIs, "Seat.hcas": {text: wordText, most: 256},
	"AnswerReply.addresses": names(256), "AskReply.ways": items(1 << 16), "Way.host": aName, "Way.error": aLine, "Way.address": aName,
	"RanksReply.ranks": items(1 << 20), "RanksReply.error": aLine, "RanksReply.waits": items(1024), "RunWaits.launcher": aName, "RunWaits.job": aWord,
	"RunWaits.placed":    asIs,
	"RankState.launcher": aName, "RankState.job": aWord, "RankState.program": aName, "RankState.state": aWord, "RankState.syscall": aWord,
	"RankState.wchan":    aWord,
	"RankState.mount":    aLine,
	"RanksReply.flights": items(1024), "RanksReply.notes": lines(64),
	"RunFlight.launcher": aName, "RunFlight.job": aWord, "RunFlight.flights": items(1 << 16),
}
