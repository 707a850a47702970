package hostlist

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/pattern"
)

// minFold is how many names make a range: two are as short without.
const minFold = 3

// fold is names that are written as one.
type fold struct {
	text  string
	count int
}

// folded writes names that differ in one number as ParseList reads them: w0, w1, w2 and w7 are w[0-2,7]. The others stay as they are. Each
// stands where its first name does.
func folded(names []string) (list []fold) {
	type family struct {
		before, after string
		digits        int // of each number, where one of them begins with 0; 0: as many as it has
	}
	of, values := make([]family, len(names)), make([]string, len(names))
	padded := map[family]bool{}
	for i, name := range names {
		of[i].before, values[i], of[i].after = numberIn(name)
		padded[of[i]] = padded[of[i]] || len(values[i]) > 1 && values[i][0] == '0'
	}
	numbers := map[family][]int{}
	for i, value := range values {
		if value == "" { // w is not of w0's family
			continue
		}
		if padded[of[i]] {
			of[i].digits = len(value)
		}
		n, _ := strconv.Atoi(value) // has nine digits at most
		numbers[of[i]] = append(numbers[of[i]], n)
	}
	done := map[family]bool{}
	for i, name := range names {
		switch have := numbers[of[i]]; {
		case values[i] == "" || len(have) < minFold:
			list = append(list, fold{name, 1})
		case !done[of[i]]:
			done[of[i]] = true
			list = append(list, fold{of[i].before + "[" + ranged(have, of[i].digits) + "]" + of[i].after, len(have)})
		}
	}
	return list
}

// numberIn is the number by which a name may differ from others, the last of its first label, or of an IPv4 address the last byte; "": none.
func numberIn(name string) (before, number, after string) {
	label := FirstLabel(name)
	if a, err := netip.ParseAddr(name); err == nil && a.Is4() {
		label = name
	}
	const digits = "0123456789"
	end := strings.LastIndexAny(label, digits) + 1
	begin := len(strings.TrimRight(label[:end], digits))
	if end == begin || end-begin > 9 || strings.ContainsAny(name, "[]:") { // which ParseList reads otherwise
		return name, "", ""
	}
	return name[:begin], name[begin:end], name[end:]
}

// ranged is numbers as numbersOf reads them.
func ranged(numbers []int, digits int) string {
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	var parts []string
	for i := 0; i < len(numbers); {
		last := i
		for last+1 < len(numbers) && numbers[last+1] == numbers[last]+1 {
			last++
		}
		part := fmt.Sprintf("%0*d", digits, numbers[i])
		if last > i {
			part += fmt.Sprintf("-%0*d", digits, numbers[last])
		}
		parts, i = append(parts, part), last+1
	}
	return strings.Join(parts, ",")
}

// trouble is a host's error text without what only this host has.
type trouble struct {
	port uint16 // at which, where the text begins with an address; 0: it does not
	text string
}

// times are those in a text, which tell no trouble from another.
var times = pattern.Of(`\b(?:\d+(?:\.\d+)?(?:h|m|s|ms|µs))+\b`)

// troubleOf takes what is only this host's out of a text: the address that it begins with, the host's name, times. words keep the times.
func troubleOf(name, text string) (t trouble, words string) {
	words = text
	if at, rest, found := strings.Cut(text, ": "); found {
		if a, err := netip.ParseAddrPort(at); err == nil {
			t.port, words = a.Port(), rest
		}
	}
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	parts := []string{words}
	if name != "" {
		parts = strings.Split(words, name)
	}
	words = parts[0]
	for _, part := range parts[1:] {
		mark := "HOST"
		if words != "" && strings.Contains(letters, words[len(words)-1:]) || part != "" && strings.Contains(letters, part[:1]) {
			mark = name // within another word
		}
		words += mark + part
	}
	t.text = times().ReplaceAllString(words, "TIME")
	return t, words
}

// alike is what is wrong with each host, its text without what is only its own, and the hosts of which the same is true.
func alike(names, texts []string) (of []trouble, words []string, with map[trouble][]string) {
	of, words, with = make([]trouble, len(names)), make([]string, len(names)), map[trouble][]string{}
	for i, text := range texts {
		of[i], words[i] = troubleOf(names[i], text)
		with[of[i]] = append(with[of[i]], names[i])
	}
	return of, words, with
}

// Together says what is wrong with hosts, or what else a noun calls them, each of which has a text, in one line for those of which the same is
// true: "host w0: 10.0.0.1:7611: TEXT", and "20 hosts, w[0-19], at port 7611: TEXT". Texts may differ in the address that they begin with, in
// the host's name, and in times.
func Together(noun string, names, texts []string) (lines []string) {
	of, words, with := alike(names, texts)
	for i, t := range of {
		switch all := with[t]; {
		case len(all) == 1:
			lines = append(lines, noun+" "+names[i]+": "+texts[i])
		case len(all) > 1:
			at := ""
			if t.port != 0 {
				at = fmt.Sprintf(", at port %d", t.port)
			}
			lines = append(lines, fmt.Sprintf("%d %ss, %s%s: %s", len(all), noun, Listed(all), at, words[i]))
			delete(with, t)
		}
	}
	return lines
}

// Alike maps each host to its error text, in equal words where several hosts share the trouble.
func Alike(names, texts []string) map[string]string {
	of, words, with := alike(names, texts)
	by, shared := map[string]string{}, map[trouble]string{}
	for i, t := range of {
		switch _, again := shared[t]; {
		case len(with[t]) == 1:
			shared[t] = texts[i]
		case again:
		case t.port != 0:
			shared[t] = fmt.Sprintf("port %d: %s", t.port, words[i])
		default:
			shared[t] = words[i]
		}
		by[names[i]] = shared[t]
	}
	return by
}

// Listed is names in a sentence, those that differ in one number as a range, at most five, and how many more there are.
func Listed(names []string) string {
	const most = 5
	var words []string
	more := len(names)
	for _, f := range folded(names) {
		if len(words) == most {
			break
		}
		words, more = append(words, f.text), more-f.count
	}
	text := strings.Join(words, ", ")
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
