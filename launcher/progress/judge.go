package progress

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// Whose lines are read, where it is no rank's number.
const (
	First = -1 // the rank's whose line matches first
	Each  = -2
)

// Config says what is looked for in the output of the first job's ranks, and what of it is a failure.
type Config struct {
	Patterns []Pattern // none: nobody looks
	Rank     int       // First, Each or a rank
	Stall    time.Duration
	Start    time.Duration
	Fail     []Rule
	Abort    bool // a finding ends the run; else it is said
}

// On says that somebody looks.
func (c Config) On() bool { return len(c.Patterns) > 0 }

// Check finds rules about names that no pattern has.
func (c Config) Check() error {
	names := map[string]bool{Rate: true}
	for _, p := range c.Patterns {
		if p.parts == nil {
			return nil // its names show when they are written
		}
		for _, part := range p.parts {
			for _, g := range part.groups {
				names[g] = true
			}
		}
	}
	for _, r := range c.Fail {
		if !names[r.Name] {
			return fmt.Errorf("--watch-fail '%v': no --watch has a group %s, as in (?P<%s>\\S+)", r, r.Name, r.Name)
		}
	}
	if len(c.Patterns) > maxPatterns {
		return fmt.Errorf("--watch %d times; %d are possible", len(c.Patterns), maxPatterns)
	}
	return nil
}

// Finding is what is not as the user wants it, in a sentence.
type Finding struct {
	Text  string
	Hangs bool // nothing comes any more
}

const (
	maxFindings = 8  // of one run that goes on
	enoughRates = 20 // so many make a median
	recentRates = 5
	maxRates    = 512
	rateEvery   = time.Second
)

// Judge is what the lines of one attempt's ranks have said so far. Times are of one clock that counts from the start of the ranks.
type Judge struct {
	cfg    Config
	name   func(id int) string // how ranks are told of
	ranks  map[int]*course
	first  int             // whose line matched first; -1: none has
	broken map[breach]bool // told, and not right again since
	said   int
	late   bool // Start has passed and was told
	still  bool // Stall likewise, no step since
}

// breach is of one rule by one rank.
type breach struct {
	rule string
	id   int
}

// course is how far one rank is.
type course struct {
	last   map[string]float64
	step   float64
	moved  time.Duration // when the step was another one last
	ended  bool
	sample struct {
		at   time.Duration
		step float64
	}
	rates []float64 // steps a second, a ring once it is full
	next  int       // in rates
}

// NewJudge is one for ranks that now start. name says how a rank is told of.
func NewJudge(cfg Config, name func(id int) string) *Judge {
	return &Judge{cfg: cfg, name: name, ranks: map[int]*course{}, first: -1, broken: map[breach]bool{}}
}

// follows says that a rank's lines count.
func (j *Judge) follows(id int) bool {
	switch j.cfg.Rank {
	case Each:
		return true
	case First:
		return j.first < 0 || j.first == id
	}
	return j.cfg.Rank == id
}

// Hear takes a point that came now, and says what is wrong with it. counts: it is of a rank that is followed.
func (j *Judge) Hear(now time.Duration, p Point) (counts bool, wrong []Finding) {
	if !j.follows(p.ID) {
		return false, nil
	}
	if j.first < 0 {
		j.first = p.ID
	}
	c := j.ranks[p.ID]
	if c == nil {
		c = &course{last: map[string]float64{}, step: -1, moved: now}
		c.sample.at = now
		j.ranks[p.ID] = c
	}
	step, counted := c.step, false
	for _, v := range p.Values {
		if (v.Name == Step || v.Name == Of) && (math.IsNaN(v.Number) || math.IsInf(v.Number, 0)) {
			continue // nowhere to be
		}
		if _, known := c.last[v.Name]; known || len(c.last) < maxNames {
			c.last[v.Name] = v.Number
		}
		if v.Name == Step {
			step, counted = v.Number, true
		}
	}
	if _, names := c.last[Step]; !counted && !names {
		step++ // lines are all that there is to count
	}
	if step != c.step {
		j.still = false
		c.move(now, step)
	}
	return true, j.check(p.ID, c, p.Values)
}

// move notes a new step.
func (c *course) move(now time.Duration, step float64) {
	c.moved, c.step = now, step
	gone, passed := step-c.sample.step, now-c.sample.at
	if gone > 0 && passed < rateEvery {
		return
	}
	if gone > 0 && len(c.last) > 0 && c.sample.at > 0 {
		if r := gone / passed.Seconds(); len(c.rates) < maxRates {
			c.rates = append(c.rates, r)
		} else {
			c.rates[c.next], c.next = r, (c.next+1)%maxRates
		}
	}
	c.sample.at, c.sample.step = now, step
}

// rate is the newest steps a second, and the median of all; known where there are enough of them.
func (c *course) rate() (recent, usual float64, known bool) {
	n := len(c.rates)
	if n < recentRates {
		return 0, 0, false
	}
	var last []float64
	for i := range recentRates {
		last = append(last, c.rates[(c.next+n-1-i)%n])
	}
	return median(last), median(c.rates), n >= enoughRates
}

func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

// check compares a rank's values with the rules.
func (j *Judge) check(id int, c *course, values []Value) (wrong []Finding) {
	for _, r := range j.cfg.Fail {
		v, said := 0.0, false
		for _, x := range values {
			if x.Name == r.Name {
				v, said = x.Number, true
			}
		}
		why, this := fmt.Sprintf("%s is %v", r.Name, v), breach{r.text, id}
		if _, own := c.last[Rate]; r.Name == Rate && (!own || r.share) {
			recent, usual, enough := c.rate()
			v, said = recent, len(c.rates) >= recentRates
			why = fmt.Sprintf("it makes %.3g steps a second", recent)
			if r.share {
				v, said = recent/usual, enough
				why += fmt.Sprintf(", %.0f %% of its median of %.3g", 100*recent/usual, usual)
			}
		}
		switch {
		case !said:
		case !r.broken(v):
			j.broken[this] = false
		case !j.broken[this]:
			j.broken[this] = true
			wrong = j.found(wrong, false, fmt.Sprintf("%s: --watch-fail '%s' of %s: %s", c.at(), r, j.name(id), why))
		}
	}
	return wrong
}

// at is where a rank is, in words.
func (c *course) at() string {
	if _, known := c.last[Step]; !known {
		return fmt.Sprintf("matching line %.0f", c.step+1)
	}
	if of := c.last[Of]; of > 0 {
		return fmt.Sprintf("step %.10g of %.10g", c.step, of)
	}
	return fmt.Sprintf("step %.10g", c.step)
}

func (j *Judge) found(list []Finding, hangs bool, text string) []Finding {
	if j.said++; j.said > maxFindings {
		return list
	}
	return append(list, Finding{Text: text, Hangs: hangs})
}

// End says that a rank writes no more.
func (j *Judge) End(id int) {
	if c := j.ranks[id]; c != nil {
		c.ended = true
	}
}

// Tick says what is wrong because nothing comes.
func (j *Judge) Tick(now time.Duration) (wrong []Finding) {
	if j.first < 0 {
		if j.cfg.Start > 0 && now >= j.cfg.Start && !j.late {
			j.late = true
			wrong = j.found(wrong, true, fmt.Sprintf("no line has matched --watch in --watch-start %v", j.cfg.Start))
		}
		return wrong
	}
	if j.cfg.Stall == 0 || j.still {
		return nil
	}
	var waits []int
	for id, c := range j.ranks {
		switch {
		case c.ended:
		case now-c.moved < j.cfg.Stall:
			return nil // somebody goes on: that others write nothing is their way of it
		default:
			waits = append(waits, id)
		}
	}
	if len(waits) == 0 {
		return nil
	}
	j.still = true
	id := slices.MinFunc(waits, func(a, b int) int {
		return cmp.Or(cmp.Compare(j.ranks[a].step, j.ranks[b].step), cmp.Compare(a, b))
	})
	text := fmt.Sprintf("no new step in --watch-stall %v: %s wrote %s last", j.cfg.Stall, j.name(id), j.ranks[id].at())
	if len(waits) > 1 {
		text = fmt.Sprintf("no new step of %d ranks in --watch-stall %v: %s is least far, at %s", len(waits), j.cfg.Stall, j.name(id), j.ranks[id].at())
	}
	return j.found(nil, true, text)
}

// Status is how far the run is, by the rank that is least far; "" before anything is known.
func (j *Judge) Status() string {
	c := j.least()
	if c == nil {
		return ""
	}
	parts := []string{c.at()}
	of, step := c.last[Of], c.step
	recent, _, _ := c.rate()
	if own, known := c.last[Rate]; known {
		recent = own
	}
	if of > 0 && step >= 0 && step <= of {
		parts[0] += fmt.Sprintf(" (%.0f %%)", 100*step/of)
	}
	if recent > 0 {
		parts = append(parts, fmt.Sprintf("%.3g a second", recent))
		if of > step {
			left := time.Duration((of - step) / recent * float64(time.Second)).Round(time.Second)
			if left >= 0 {
				parts = append(parts, fmt.Sprintf("%v left", left))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.last)) {
		if name != Step && name != Of && name != Rate {
			parts = append(parts, fmt.Sprintf("%s %.4g", name, c.last[name]))
		}
	}
	return strings.Join(parts, ", ")
}

// Numbers are the values of the rank that is least far, by name; steps a second among them where they are known.
func (j *Judge) Numbers() map[string]float64 {
	c := j.least()
	if c == nil {
		return nil
	}
	numbers := maps.Clone(c.last)
	if recent, _, _ := c.rate(); recent > 0 {
		if _, own := numbers[Rate]; !own {
			numbers[Rate] = recent
		}
	}
	return numbers
}

func (j *Judge) least() (least *course) {
	for _, id := range slices.Sorted(maps.Keys(j.ranks)) {
		if c := j.ranks[id]; least == nil || c.step < least.step {
			least = c
		}
	}
	return least
}
