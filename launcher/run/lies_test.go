package run

import (
	"strings"

	"google.golang.org/protobuf/proto"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

// What a liar may put into a field: near a bound of a run of six ranks, of a set and of a type.
var (
	numbers = []uint64{0, 1, 2, 3, 5, 6, 7, 63, 255, 1 << 16, 1<<20 - 1, 1 << 20, 1 << 21, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1<<63 - 1, 1<<64 - 1}
	sets    = []string{"", "0", "1", "0-1", "0-5", "2", "2-3", "4-5", "0-5#7", "5", "6", "0-6", "0-65535", "1048575", "0-1048575", "2097152", "0-99999999999999999999",
		"0-5,0-5,0-5", "3-1", "x", "#", "0-5#" + strings.Repeat("7", 300), "00000000000000000000000000000000000000001"}
	texts = []string{"", "x", "w1", "\x1b]0;x\a\u202e\nmpiup: done", strings.Repeat("long ", 400), "0-5 1", "0-5 18446744073709551616", "2-3 2", "torch", "Open MPI 4.1.4 (/x)"}
)

func (s *session) number() uint64 { return numbers[int(s.byte())%len(numbers)] }
func (s *session) set() string    { return sets[int(s.byte())%len(sets)] }
func (s *session) text() string   { return texts[int(s.byte())%len(texts)] }
func (s *session) flag() bool     { return s.byte()&1 != 0 }

// rank is mostly one of the liar's own.
func (s *session) rank() uint32 {
	if b := s.byte(); b < 0xc0 {
		return uint32(b & 1)
	}
	return uint32(s.number())
}

type framed interface{ Frame() *apiv1.Frame }

// lies are the frames that agents send, and one that only launchers do.
var lies = []func(s *session) framed{
	func(s *session) framed { return &apiv1.Started{Rank: s.rank(), Pid: int32(s.number())} },
	func(s *session) framed { return &apiv1.Started{Rank: s.rank(), Pid: 1} },
	func(s *session) framed {
		return &apiv1.StartFailed{Rank: s.rank(), Errno: int32(s.number()), Path: s.text(), Text: s.text(), Phase: apiv1.StartPhase(s.byte() & 7)}
	},
	func(s *session) framed {
		return &apiv1.Exited{Rank: s.rank(), Devices: []*apiv1.DeviceError{{What: apiv1.DeviceFault(s.number()), Device: s.text(), Number: uint32(s.number())}}, Code: int32(s.number()), Signal: int32(s.byte()), StoppedByUs: s.flag(), Pmi: apiv1.PmiState(s.byte() & 3), TimeNs: int64(s.number()),
			Text: s.text(), Library: s.text(), Lacking: s.text()}
	},
	func(s *session) framed {
		return &apiv1.OutputEnd{Rank: s.rank(), Cut: s.flag(), Frames: []string{s.text(), s.text()}, Placed: []*apiv1.Placed{{Frame: s.text(), Place: s.text()}}}
	},
	func(s *session) framed { return &apiv1.WireupFailed{Rank: s.rank(), Text: s.text(), Gone: s.set()} },
	func(s *session) framed {
		return &apiv1.Aborted{Rank: s.rank(), Code: int32(s.number()), Text: s.text(), Targets: s.set(), Id: s.number()}
	},
	func(s *session) framed {
		return &apiv1.Control{Rank: s.rank(), Targets: s.set(), Signal: int32(s.number()), End: s.flag()}
	},
	func(s *session) framed {
		return &apiv1.Waits{Id: s.number(), Silent: s.set(), Waits: []*apiv1.Wait{{Set: s.set(), Entered: s.set(), Absent: s.set(), Seconds: uint32(s.number())}, {}}}
	},
	func(s *session) framed { return &apiv1.Waits{} },
	func(s *session) framed { // of its answer to the question that is open
		w := &apiv1.Waits{Id: s.inquiry.id, Notes: []string{s.text(), s.text()}}
		for range 1 + s.byte()&7 {
			w.Stacks = append(w.Stacks, &apiv1.ProcStack{Id: s.rank(), Pid: int32(s.number()), Means: s.text(), Frames: []string{s.text(), s.text(), "MPI_Barrier", "main"}})
		}
		return w
	},
	func(s *session) framed {
		return &apiv1.Activity{Job: uint32(s.number()), Works: s.set(), Busy: s.set(), Idle: s.set(), Places: []*apiv1.Place{{Ids: s.set(), Where: s.text()}}}
	},
	func(s *session) framed {
		return &apiv1.Met{Job: uint32(s.byte() & 1), Framework: s.text(), Loaded: s.set(), Met: s.set(), Elsewhere: s.set(), Visited: s.flag()}
	},
	func(s *session) framed {
		op := &apiv1.FlightOp{Seq: s.number(), Name: s.text(), Shape: s.text(), Done: s.flag(), Where: s.text()}
		return &apiv1.Flight{Job: uint32(s.byte() & 1), Rank: uint32(s.number()), Dump: []byte(s.text()), Groups: []*apiv1.FlightGroup{
			{Name: s.text(), What: s.text(), Ranks: s.set(), Last: s.number(), Ops: []*apiv1.FlightOp{op, op}}, {Ranks: s.set()}}}
	},
	func(s *session) framed {
		return &apiv1.Chosen{Job: uint32(s.number()), App: uint32(s.number()), Pmi: apiv1.Pmi(s.byte() & 7), Library: s.text(), Why: s.text(), Sure: s.flag(), Waits: s.flag()}
	},
	func(s *session) framed { return &apiv1.Notice{Text: s.text(), Warning: s.flag()} },
	func(s *session) framed { return &apiv1.Ending{Why: s.text(), Shutdown: s.flag()} },
	func(s *session) framed {
		return &apiv1.Closed{Text: s.text(), Refusal: apiv1.Refusal(s.byte() & 15)}
	},
	func(s *session) framed {
		return &apiv1.FenceEnter{Set: s.set(), Epoch: s.number(), Data: []byte(s.text()), Collect: s.flag()}
	},
	func(s *session) framed {
		return &apiv1.FenceEnter{Set: "0-5", Epoch: uint64(s.byte() & 3), Data: []byte("x")}
	},
	func(s *session) framed {
		return &apiv1.Resumed{Dropped: []*apiv1.Dropped{{Rank: s.rank(), Bytes: s.number()}}, Fences: []string{s.text(), s.text()}, LostMs: s.number()}
	},
	func(s *session) framed { return &apiv1.Resumed{Fences: []string{s.text()}} },
	func(s *session) framed {
		return &apiv1.NameRequest{Id: s.number(), Op: apiv1.NameOp(s.byte() & 7), Service: s.text(), Value: []byte(s.text()), Services: []string{s.text(), s.text()}, Since: s.number()}
	},
	func(s *session) framed {
		return &apiv1.FetchRequest{Id: s.number(), Owner: uint32(s.number()), Key: s.text(), AnyOwner: s.flag(), Wait: s.flag(), Job: uint32(s.number()), Not: []byte(s.text())}
	},
	func(s *session) framed {
		return &apiv1.FetchResult{Id: s.number(), Found: s.flag(), Value: []byte(s.text()), Error: s.text()}
	},
	func(s *session) framed {
		app := &apiv1.SpawnApp{App: &apiv1.App{Argv: []string{"c"}, Wdir: s.text()}, Procs: uint32(s.number()), PerHost: uint32(s.number()), MapBy: s.text()}
		switch s.byte() & 3 {
		case 0:
			app.Procs = 1 + uint32(s.byte()&3)
		case 1:
			app.Hosts = []string{s.text() + ":" + s.set()}
		case 2:
			app.Hostfile = s.text()
		}
		return &apiv1.SpawnRequest{Id: s.number(), Parent: s.rank(), Apps: []*apiv1.SpawnApp{app}, Preput: []*apiv1.KeyValue{{Key: s.text()}}}
	},
	func(s *session) framed { return &apiv1.Event{Data: []byte(s.text())} },
	func(s *session) framed {
		return &apiv1.Rendezvous{Job: uint32(s.number()), Scope: s.text(), Epoch: s.number(), Key: s.text(), Value: []byte(s.text()), Done: s.flag(), Rank: s.rank()}
	},
	func(s *session) framed { return &apiv1.Credit{Rank: s.rank(), Bytes: uint32(s.number())} },
	func(s *session) framed { return &apiv1.CopyCredit{Job: uint32(s.number()), Bytes: uint32(s.number())} },
	func(s *session) framed { return &apiv1.Output{Rank: s.rank(), Data: []byte(s.text())} },
	func(s *session) framed {
		return &apiv1.ContainerMemory{Used: s.number(), Limit: s.number(), Peak: s.number(), Kills: s.number(), KilledMs: s.number()}
	},
	func(s *session) framed {
		victims := []*apiv1.MemoryVictim{{Pid: int32(s.number()), Name: s.text(), Resident: s.number(), Rank: uint32(s.number())}, {}}
		return &apiv1.Exited{Rank: s.rank(), Code: int32(s.number()), Memory: &apiv1.ContainerMemory{Limit: s.number(), Kills: s.number(), KilledMs: s.number(), Victims: victims}}
	},
	func(s *session) framed { return &apiv1.Stop{Why: s.text(), Now: s.flag()} },
	func(s *session) framed {
		w := &apiv1.Waited{Job: uint32(s.byte() & 1), AtNs: int64(s.number()), ThrottledNs: int64(s.number()), MemoryStalledNs: int64(s.number()),
			IoStalledNs: int64(s.number()), Segments: s.number(), Resent: s.number(), LinkErrors: s.number(), Mhz: uint32(s.number())}
		for range 1 + s.byte()&3 {
			r := &apiv1.RankWaited{Id: s.rank(), State: apiv1.WatchState(s.byte() & 7), Seq: s.number(), InsideNs: int64(s.number()), Call: s.text(), CalledNs: int64(s.number()), ElsewhereNs: int64(s.number()), CpuNs: int64(s.number()), QueuedNs: int64(s.number()), ReadBack: s.number(), Far: uint32(s.number()), GpuSlow: uint32(s.number()), StepNs: int64(s.number()), StepCalls: uint32(s.number())}
			for range s.byte() & 31 {
				r.Points = append(r.Points, &apiv1.WaitPoint{Seq: s.number(), WaitedNs: int64(s.number()), OtherNs: int64(s.number()), Loose: s.number(), AtNs: int64(s.number())})
			}
			w.Ranks = append(w.Ranks, r)
		}
		return w
	},
	func(s *session) framed { return &apiv1.Progress{Rank: s.rank(), Data: []byte(s.text())} },
	func(s *session) framed {
		return &apiv1.Seats{Gpus: []*apiv1.SeatDevice{{Name: s.text(), Text: s.text(), NearCpus: s.text(), Missing: s.text()}}, Error: s.text(),
			Seats: []*apiv1.Seat{{Rank: s.rank(), Gpus: []uint32{uint32(s.number())}, AllGpus: s.flag(), Hcas: []string{s.text()}}}}
	},
}

func (s *session) frame(b byte) *apiv1.Frame { return lies[int(b)%len(lies)](s).Frame() }

// seeds are sessions that begin well, and then lie in one way each, and sessions that go where bytes by chance do not come.
func seeds() (list [][]byte) {
	begin := func(flags byte) []byte { // all run
		return []byte{flags, 0, 0, 0, 0, 1, 0, 0x90, 0xff, 0x91, 0xff, 0x90, 0xff, 0x91, 0xff}
	}
	for i := range lies {
		for _, fields := range []byte{0, 3, 14} {
			list = append(list, append(begin(16), byte(i), fields, fields, fields, fields, fields, 0x90, 0x30, 0x91, 0x30))
		}
	}
	const answers, activity, met, flight, fence, spawns = 10, 11, 12, 13, 19, 25 // in lies
	// The run hangs, and is looked at: all wait, minutes pass, and hosts answer who waits and where, twice, with lies between.
	answer := []byte{0x90, 0x30, 0x91, 0x30, answers, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 1, 0, 0}
	for _, flags := range []byte{4, 20, 5, 36, 0} {
		hang := append(begin(flags), 0x90, 0x80, 0x91, 0x80, activity, 0, 0, 0, 3, 3, 1)
		for i := range byte(6) {
			answer[1], answer[3] = 0x30+i/2, 0x30+i/2 // they wait in a barrier, have not come to one, are not in MPI
			hang = append(append(hang, 0xe7, 1), answer...)
		}
		list = append(list, hang, append(append(append(begin(flags), 0x90, 0x40, 0x91, 0x40, 0x90, 0x40), hang[15:]...), 0xe0, 8, fence, 1, 0x90, 0x50))
	}
	// A flight recorder of torch's says who is absent; ranks meet by a framework, or not; time is up.
	for _, last := range []byte{1, 2, 5} {
		records := begin(16)
		for rank := range byte(2) {
			records = append(records, flight, 2, 0, 0, 0, 0, 0, rank, 0, 1, 1, 4, 2-rank*last%3, 0)
		}
		for _, set := range []byte{0, 3, 4} {
			records = append(records, met, 0, 8, 3, set, 0, 0)
		}
		list = append(list, append(append(append(records, 0xe0, 5, 0xe0, 6, 0xe0, 8), answer...), 0xe0, 7, 0x90, 0x30, 0x91, 0x30, 0xe0, 4))
	}
	// A rank spawns, also onto the host that joins; the job grows; the launcher is lost between, once and again.
	for _, flags := range []byte{64, 72, 80, 96} {
		spawned := begin(flags)
		for how := range byte(4) {
			app := [][]byte{{1}, {2, 2}, {1}, {}}[how]
			for _, onHost := range []byte{0, 1} {
				spawned = append(append(append(spawned, spawns, 1, 1, onHost, 0, how), app...), 2+onHost, 0, 1)
			}
		}
		lost := append(begin(flags), 0xf0, flags, 0x90, 0x91, 0x14, 0, 0, 0, 0, 0, 0x90, 0x91, 0x90, 0x91, 0xf1, flags, 0x90, 0x91)
		spawned = append(spawned, 0x92, 0xff, 0x92, 0xff, 0x92, 0xff, 0x92, 0, 0x92, 0, 0x92, 0, 0x92, 0)
		list = append(list, spawned, append(append([]byte{}, spawned...), 0xee, 0x90, 0x91), lost)
	}
	f, _ := proto.Marshal((&apiv1.Flight{Rank: 1 << 21}).Frame())
	return append(list, append([]byte{0, 0xff, byte(len(f))}, f...))
}
