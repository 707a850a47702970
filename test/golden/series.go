package golden

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

var (
	sampleLine  = regexp.MustCompile(`^(\w+)(?:\{(.*)\})? (\S+)$`)
	sampleLabel = regexp.MustCompile(`\w+="(?:[^"\\]|\\.)*"`)
)

// SortSeries is a page of Prometheus' text format with its families by name, the samples of each by their labels, and the labels by name:
// orders in which two pages may differ that say the same. Values of families that vary names are left out.
func SortSeries(page string, vary *regexp.Regexp) string {
	type family struct {
		name    string
		head    []string // HELP and TYPE
		samples []string
	}

	var families []*family
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(line, "\n")

		if words := strings.SplitN(line, " ", 4); words[0] == "#" {
			if len(families) == 0 || families[len(families)-1].name != words[2] {
				families = append(families, &family{name: words[2]})
			}
			last := families[len(families)-1]
			last.head = append(last.head, line)
			continue
		}

		m := sampleLine.FindStringSubmatch(line)
		if m == nil || len(families) == 0 {
			return "no line of a page: " + line + "\n"
		}
		last := families[len(families)-1]
		labels := sampleLabel.FindAllString(m[2], -1)
		slices.Sort(labels)
		value := m[3]
		if vary.MatchString(last.name) {
			value = "*"
		}
		last.samples = append(last.samples, m[1]+"{"+strings.Join(labels, ",")+"} "+value)
	}

	slices.SortStableFunc(families, func(a, b *family) int { return cmp.Compare(a.name, b.name) })
	var out strings.Builder
	for _, f := range families {
		slices.Sort(f.samples)
		for _, line := range slices.Concat(f.head, f.samples) {
			out.WriteString(line + "\n")
		}
	}
	return out.String()
}
