package codec

import (
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"google.golang.org/protobuf/proto"
)

// Prepare encodes, decodes and vets the frames of every run once. The protobuf library works out how a type is encoded when
// it first meets one. For these together that takes 1 ms: a launcher does it beside its search for hosts, an agent
// before its first launcher comes. What fails here fails where a frame is sent too, which says so.
func Prepare() {
	for _, f := range usual() {
		if b, err := proto.Marshal(f); err == nil {
			_ = proto.Unmarshal(b, &apiv1.Frame{})
			Vet(f)
		}
	}
}

// usual are the frames of every run, with a value in each message that they hold.
func usual() []*apiv1.Frame {
	return []*apiv1.Frame{
		{Body: &apiv1.Frame_Open{Open: &apiv1.Open{Protocol: 1}}},
		{Body: &apiv1.Frame_Opened{Opened: &apiv1.Opened{Host: &apiv1.HelloReply{Protocol: 1}, Machine: &apiv1.Machine{Cpu: []uint32{0}}}}},
		{Body: &apiv1.Frame_Launch{Launch: &apiv1.Launch{
			Job:   &apiv1.Job{Size: 1, Layout: []*apiv1.HostRanks{{Name: "a"}}, Fabric: &apiv1.Fabric{Use: "a"}, AppOf: []uint32{0}},
			Apps:  []*apiv1.App{{Argv: []string{"a"}}},
			Procs: []*apiv1.Proc{{Rank: 1}},
			Stdin: []uint32{0},
		}}},
		{Body: &apiv1.Frame_Started{Started: &apiv1.Started{Rank: 1}}},
		{Body: &apiv1.Frame_Chosen{Chosen: &apiv1.Chosen{Job: 1}}},
		{Body: &apiv1.Frame_FenceEnter{FenceEnter: &apiv1.FenceEnter{Epoch: 1}}},
		{Body: &apiv1.Frame_FenceResult{FenceResult: &apiv1.FenceResult{Epoch: 1, Data: [][]byte{{1}}}}},
		{Body: &apiv1.Frame_Output{Output: &apiv1.Output{Rank: 1}}},
		{Body: &apiv1.Frame_OutputEnd{OutputEnd: &apiv1.OutputEnd{Rank: 1}}},
		{Body: &apiv1.Frame_Exited{Exited: &apiv1.Exited{Rank: 1}}},
		{Body: &apiv1.Frame_Bye{Bye: &apiv1.Bye{}}},
		{Body: &apiv1.Frame_Closed{Closed: &apiv1.Closed{}}},
	}
}
