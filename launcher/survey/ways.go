package survey

import (
	"context"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/launcher/doctor"
)

// ways are those between each two hosts that were looked at.
type ways struct {
	cfg   Config
	hosts []Host
	there []int // of hosts
	token [16]byte

	done  []func() error // closes a host's ports; nil: it has none. By place in there
	found []doctor.Way
	open  []string // why a host's ports may still be open; "": they are closed. By place in there
}

// run lets each host ask all others.
func (w *ways) run(ctx context.Context) {
	ctx, cancel := awake.Within(ctx, answerTime)
	defer cancel()
	n := len(w.there)
	targets, mute := w.answer(ctx)
	results := make([][]doctor.Way, n)
	if !w.cfg.Measure {
		InParallel(n, func(from int) {
			var others []*apiv1.Target
			for to, t := range targets {
				if to != from && t != nil {
					others = append(others, t)
				}
			}
			results[from] = w.ask(ctx, from, others)
		})
	} else {
		for _, round := range doctor.Rounds(n) {
			InParallel(len(round), func(k int) {
				from, to := round[k][0], round[k][1]
				if targets[to] != nil {
					results[from] = append(results[from], w.ask(ctx, from, targets[to:to+1])...)
				}
			})
		}
	}
	for from, list := range results {
		w.found = append(w.found, list...)
		for to, why := range mute {
			if why != "" && to != from {
				w.found = append(w.found, doctor.Way{From: w.name(from), To: w.name(to), Error: why, Mute: true})
			}
		}
	}
	w.close()
}

func (w *ways) name(k int) string { return w.hosts[w.there[k]].Name }

func (w *ways) agent(k int) Agent { return w.hosts[w.there[k]].Agent }

// answer has every host open its ports; those that cannot have no target, and say why.
func (w *ways) answer(ctx context.Context) (targets []*apiv1.Target, mute []string) {
	n := len(w.there)
	targets, mute, w.done = make([]*apiv1.Target, n), make([]string, n), make([]func() error, n)
	request := &apiv1.AnswerRequest{Token: w.token[:], Net: w.cfg.Net.String(), MpiPorts: w.cfg.MPIPorts.String()}
	InParallel(n, func(k int) {
		addresses, done, err := w.agent(k).Answer(ctx, request)
		if err != nil {
			mute[k] = "it cannot answer: " + err.Error()
			return
		}
		targets[k], w.done[k] = &apiv1.Target{Host: w.name(k), Addresses: addresses}, done
	})
	return targets, mute
}

// close waits until all ports are closed, also when the look was cut short.
func (w *ways) close() {
	w.open = make([]string, len(w.there))
	InParallel(len(w.there), func(k int) {
		if w.done[k] == nil {
			return
		}
		if err := w.done[k](); err != nil {
			w.open[k] = err.Error()
		}
	})
}

// ask lets one host measure the way to others. What goes wrong on the way to the host itself is the answer for all.
func (w *ways) ask(ctx context.Context, from int, to []*apiv1.Target) (list []doctor.Way) {
	if len(to) == 0 {
		return nil
	}
	reply, err := w.agent(from).Ask(ctx, &apiv1.AskRequest{Targets: to, Token: w.token[:], Rate: w.cfg.Measure})
	for i, t := range to {
		way := doctor.Way{From: w.name(from), To: t.Host}
		switch {
		case err != nil:
			way.Error = "the host could not be asked: " + err.Error()
		case i >= len(reply.Ways):
			way.Error = "the host did not say"
		default:
			a := reply.Ways[i]
			way.Error, way.RTT, way.Rate, way.MTU = a.Error, float64(a.RttNs)/1e3, a.Rate/1e6, int(a.Mtu)
		}
		list = append(list, way)
	}
	return list
}
