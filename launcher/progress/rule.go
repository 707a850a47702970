package progress

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Rule says which value is a failure: loss=nan, loss>1e4, rate<50%.
type Rule struct {
	Name  string
	op    string
	limit float64
	share bool // limit is a share of the median rate of the run so far
	text  string
}

// String is the rule as it was written.
func (r Rule) String() string { return r.text }

// operators, the longer ones first.
var operators = []string{"!=", "<=", ">=", "=", "<", ">"}

// ParseRule reads NAME, an operator and a number, nan or inf. Of the rate alone N% is a share of its own median.
func ParseRule(text string) (r Rule, err error) {
	at := strings.IndexAny(text, "!=<>")
	if at <= 0 {
		return r, errors.New("write NAME, one of = != < > <= >=, and a number, nan or inf, as in loss=nan")
	}
	r = Rule{Name: strings.TrimSpace(text[:at]), text: text}
	rest := text[at:]
	for _, op := range operators {
		if after, ok := strings.CutPrefix(rest, op); ok {
			r.op, rest = op, strings.TrimSpace(after)
			break
		}
	}
	if r.op == "" {
		return r, fmt.Errorf("%s is no comparison; write one of = != < > <= >=", rest)
	}
	if value, ok := strings.CutSuffix(rest, "%"); ok {
		if r.Name != Rate || r.op != "<" {
			return r, errors.New("a share is of the rate alone, as in rate<50%")
		}
		r.share, rest = true, value
	}
	if r.limit, err = strconv.ParseFloat(rest, 64); err != nil {
		return r, fmt.Errorf("%q is no number; write one, nan or inf", rest)
	}
	if r.share {
		r.limit /= 100
	}
	if math.IsNaN(r.limit) && r.op != "=" && r.op != "!=" {
		return r, errors.New("nothing is less or greater than nan; write = or !=")
	}
	return r, nil
}

// broken says that a value is what the rule calls a failure.
func (r Rule) broken(v float64) bool {
	same := v == r.limit || math.IsNaN(v) && math.IsNaN(r.limit)
	switch r.op {
	case "=":
		return same
	case "!=":
		return !same
	case "<":
		return v < r.limit
	case ">":
		return v > r.limit
	case "<=":
		return v <= r.limit
	}
	return v >= r.limit
}
