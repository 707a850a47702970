package phases

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/run/model"
	"github.com/mpiup/mpiup/test/golden"
)

// Each file of testdata/choose plays attempts; what comes of a line is indented below it. go test -update writes that anew.
//
//	max N | failed after DURATION                 counts restarts
//	seats HOST:RANKS[:lost]... [beyond]           the hosts of the last attempt
//	answers HOST:SLOTS... HOST:tried HOST:not     who is here, who was asked in vain, who has not answered yet
//	elastic MIN BEGIN MAX [whole]                 from now on answers are those of a job that may change its size, at its first start; whole: each host
//	                                              gets as many ranks as the first answer has slots
//	again RANKS                                   at its next, when it had so many
func TestChoices(t *testing.T) {
	golden.PlayIn(t, "testdata/choose", func(t *testing.T, out *strings.Builder) func(string) {
		var count Count
		var seats []Seat
		var wish Wish
		var target int
		var whole bool
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
				e := job.Elastic{Min: number(words[1]), Begin: number(words[2]), Max: number(words[3])}
				wish, target = Wish{Elastic: e}, cmp.Or(e.Begin, e.Max)
				whole = len(words) > 4
			case "again":
				target = number(words[1])
			case "seats":
				seats, wish.Policy.Oversubscribe = nil, false
				for _, w := range words[1:] {
					if w == "beyond" {
						wish.Policy.Oversubscribe = true
						continue
					}
					p := strings.Split(w, ":")
					seats = append(seats, Seat{Host: p[0], Ranks: idset.Range(0, number(p[1])-1), Lost: len(p) > 2})
				}
			case "answers":
				var answers []Answer
				for _, w := range words[1:] {
					name, what, _ := strings.Cut(w, ":")
					switch a := (Answer{Wanted: model.Wanted{Entry: hostlist.Entry{Name: name}}}); what {
					case "tried":
						a.Tried = true
						answers = append(answers, a)
					case "not":
						answers = append(answers, a)
					default:
						a.Host = &model.Host{Slots: number(what)}
						if whole && wish.Policy.PerNode == 0 {
							wish.Policy.PerNode = number(what)
						}
						answers = append(answers, a)
					}
				}
				if wish.Elastic.On() {
					c := wish.AsMany(seats, target, answers)
					for k, at := range c.Answers {
						fmt.Fprintf(out, "  %s: %d\n", answers[at].Name(), c.Ranks[k])
					}
					fmt.Fprintf(out, "  %d ranks, enough: %t, settled: %t\n", c.Sum, c.Enough, c.Settled)
					return
				}
				c := wish.Refill(seats, answers)
				for i, at := range c.Answers {
					by := "nobody"
					if at >= 0 {
						by = answers[at].Name()
					}
					fmt.Fprintf(out, "  %s: %s\n", seats[i].Host, by)
				}
				fmt.Fprintf(out, "  enough: %t\n", c.Enough)
			default:
				t.Fatalf("%s?", words[0])
			}
		}
	})
}
