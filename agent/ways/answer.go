package ways

import (
	"context"
	"fmt"
	"net/netip"
	"sync"

	"github.com/mpiup/mpiup/agent/host"
	"github.com/mpiup/mpiup/agent/outfit"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/rdma"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// Answer opens ports for other hosts' questions, calls told with them, and answers until ctx ends; when it returns
// they are closed.
func (s *Survey) Answer(ctx context.Context, r *apiv1.AnswerRequest, told func(*apiv1.AnswerReply) error) error {
	token, err := tokenOf(r.Token)
	if err != nil {
		return err
	}
	choice, ports, err := chooseAsked(rdma.Read(sysfs.Host(), rdma.Config{Addresses: host.Addresses}), r.Net, r.MpiPorts)
	if err != nil {
		return err
	}
	select {
	case s.answering <- struct{}{}:
		defer func() { <-s.answering }()
	default:
		return fmt.Errorf("this agent answers the checks of %d launchers already; try again when one is done", maxAnswers)
	}
	server, err := Listen(s.answerAt(choice), ports, token)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, maxAnswer)
	defer cancel()
	var serving sync.WaitGroup
	defer serving.Wait()
	defer cancel()
	serving.Go(func() { server.Run(ctx) })
	reply := &apiv1.AnswerReply{}
	for _, at := range server.Addresses() {
		reply.Addresses = append(reply.Addresses, at.String())
	}
	if err := told(reply); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-s.cfg.Ending:
	}
	return nil
}

// answerAt is where MPI's traffic goes: the interface that was chosen, else this agent's own address. An agent on
// loopback shares the machine with others, and has no other.
func (s *Survey) answerAt(choice outfit.Choice) []netip.Addr {
	own := s.cfg.Address()
	if list := mpiAddresses(choice); len(list) > 0 && !own.IsLoopback() {
		return list
	}
	return []netip.Addr{own}
}
