package restart

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/golden"
)

// Each file of testdata plays attempts; what comes of a line is indented below it. go test -update writes that anew.
//
//	max N | failed after DURATION                 counts restarts
//	seats HOST:RANKS[:lost]... [beyond]           the hosts of the last attempt
//	answers HOST:SLOTS... HOST:tried HOST:not     who is here, who was asked in vain, who has not answered yet
//	elastic MIN BEGIN MAX [whole]                 from now on answers are those of a job that may change its size, at its first start
//	again RANKS                                   at its next, when it had so many
func TestScripts(t *testing.T) {
	golden.Play(t, func(t *testing.T, out *strings.Builder) func(string) {
		var count Count
		var seats []Seat
		var beyond bool
		var muster Muster
		number := func(s string) int {
			n, err := strconv.Atoi(s)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		return func(line string) {
			words := strings.Fields(line)
			switch words[0] {
			case "max":
				count = Count{Max: number(words[1])}
			case "failed":
				ran, err := time.ParseDuration(words[2])
				if err != nil {
					t.Fatal(err)
				}
				pause, ok := count.Next(ran)
				fmt.Fprintf(out, "  restart %d of %d after %v: %t\n", count.Done, count.Max, pause, ok)
			case "elastic":
				e := Elastic{Min: number(words[1]), Begin: number(words[2]), Max: number(words[3])}
				muster = Muster{Elastic: e, Target: cmp.Or(e.Begin, e.Max), Whole: len(words) > 4}
			case "again":
				muster.Target = number(words[1])
			case "seats":
				seats, beyond = nil, false
				for _, w := range words[1:] {
					if w == "beyond" {
						beyond = true
						continue
					}
					p := strings.Split(w, ":")
					seats = append(seats, Seat{Host: p[0], Ranks: number(p[1]), Lost: len(p) > 2})
				}
			case "answers":
				var answers []Answer
				for _, w := range words[1:] {
					name, what, _ := strings.Cut(w, ":")
					switch a := (Answer{Host: name}); what {
					case "tried":
						a.Tried = true
						answers = append(answers, a)
					case "not":
						answers = append(answers, a)
					default:
						a.Here, a.Slots = true, number(what)
						answers = append(answers, a)
					}
				}
				if muster.On() {
					muster.Seats = seats
					c := muster.Choose(answers)
					for k, at := range c.Cast {
						fmt.Fprintf(out, "  %s: %d\n", answers[at].Host, c.Ranks[k])
					}
					fmt.Fprintf(out, "  %d ranks, enough: %t, settled: %t\n", c.Sum, c.Enough, c.Settled)
					return
				}
				cast, ok := Cast(seats, answers, beyond)
				for i, at := range cast {
					by := "nobody"
					if at >= 0 {
						by = answers[at].Host
					}
					fmt.Fprintf(out, "  %s: %s\n", seats[i].Host, by)
				}
				fmt.Fprintf(out, "  enough: %t\n", ok)
			default:
				t.Fatalf("%s?", words[0])
			}
		}
	})
}
