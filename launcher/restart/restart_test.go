package restart

import (
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
func TestScripts(t *testing.T) {
	golden.Play(t, func(t *testing.T, out *strings.Builder) func(string) {
		var count Count
		var seats []Seat
		var beyond bool
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
